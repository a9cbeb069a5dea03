package engine

import (
	"github.com/bladehost/bladehost/abi"
	"github.com/bladehost/bladehost/host/internal/strictjson"
)

// result turns what the guest handed to ret into a result. The bytes are the
// guest's: everything about them is checked here.
func (i *instance) result() *abi.Result {
	if i.ret.big {
		return abi.Failure(abi.NewError(abi.CodeResultTooBig, "the tool's answer is over %d MiB", abi.MaxResult>>20))
	}
	if err := strictjson.Check(i.ret.bytes); err != nil {
		return abi.Failure(abi.NewError(abi.CodeResultNotJSON, "the tool's answer is %v", err))
	}
	return abi.Publish(int32(i.ret.status), i.ret.bytes)
}

// StampCompile says in a result, if there is one, whether the machine code of its
// plugin was in the cache.
func StampCompile(res *abi.Result, hit bool) {
	if res == nil {
		return
	}
	word := "miss"
	if hit {
		word = "hit"
	}
	res.SetMeta("compile", word)
}
