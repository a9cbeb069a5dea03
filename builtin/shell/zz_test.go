package shell
import ("testing";"math/rand/v2";"os";"strings")
func TestZZ(t *testing.T) {
	if os.Getenv("ZZ")=="" { t.Skip() }
	from := seeds(t)
	var good []string
	for _, l := range from { if _, ok := readOnly(l); ok { good = append(good, l) } }
	for seed := uint64(10); seed < 18; seed++ {
		r := rand.New(rand.NewPCG(seed, 99))
		var asked []string; var want [][]string
		for i := range 150000 {
			l := mutate(r, from[r.IntN(len(from))])
			if i%3 > 0 { l = mutate(r, good[r.IntN(len(good))]) }
			if i%5 == 0 { l = mutate(r, l) }
			if argv, ok := readOnly(l); ok { asked, want = append(asked, l), append(want, argv) }
		}
		for i, got := range askBash(t, replaceName(asked, want)) {
			if len(got) == 0 || got[0] != notACommand || strings.Join(got[1:], "\x00") != strings.Join(want[i][1:], "\x00") {
				t.Errorf("%q: judged as %q, bash makes %q of it", asked[i], want[i], got)
			}
		}
		t.Logf("%d", len(asked))
	}
}
