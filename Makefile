# Thin lines: each works as the plain command too.
.PHONY: check test race bench fuzz gen cross

check:
	gofmt -l . && go vet ./... && go tool -modfile=tools.mod staticcheck ./... && go test ./host -run House

test:
	go test ./...

race:
	go test -race ./...

bench:
	go run ./testdata/bench

fuzz:
	.ci/fuzz 60

gen:
	go test ./... -run 'TestGenerated|TestSpec' -update

cross:
	GOOS=darwin GOARCH=arm64 go build ./... && GOOS=windows GOARCH=amd64 go build ./...
