package detect

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
)

// stream is one record of the corpus.
type stream struct {
	ID, Family, Label, Expect, Channel string
	Tags                               []string
	Fragments, Channels                []string
	OnsetB                             *int64 `json:"onset_b"`
	OnsetC                             *int64 `json:"onset_c"`
	PeriodB                            *int64 `json:"period_b"`
	PeriodC                            *int64 `json:"period_c"`
	ConfirmB                           *int64 `json:"confirm_b"`
	ConfirmC                           *int64 `json:"confirm_c"`
}

func openCorpus(t testing.TB) string {
	if p := os.Getenv("STREAMGAUGE_CORPUS"); p != "" {
		return p
	}
	return "../../shared/corpus/open.jsonl.gz"
}

func TestCorpus(t *testing.T) {
	f, err := os.Open(openCorpus(t))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(t, Limits{})
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var s stream
		if err := json.Unmarshal(sc.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for i, fr := range s.Fragments {
			ch := s.Channel
			if s.Channels != nil {
				ch = s.Channels[i]
			}
			texts[ch] += fr
		}
		for ch, text := range texts {
			got := judge(t, l, text, 31)
			v, ok := got[Confirmed]
			if s.ConfirmB != nil && ch == s.Channel {
				want := finding{Extent{*s.OnsetB, *s.OnsetC}, Extent{*s.PeriodB, *s.PeriodC}, Extent{*s.ConfirmB, *s.ConfirmC}}
				if !ok || v.finding() != want {
					t.Errorf("%s: got %+v want %+v", s.ID, v, want)
				}
			} else if ok {
				t.Errorf("%s: confirmed %+v", s.ID, v)
			}
			if _, ok := got[WhiteSpace]; ok != (s.Expect == "whitespace") {
				t.Errorf("%s: ws %v", s.ID, ok)
			}
			if _, ok := got[Suspected]; !ok && s.Expect == "suspected" {
				t.Errorf("%s: not suspected", s.ID)
			}
		}
	}
}
