package wire

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestAskUsage(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"none", `{"model":"m","stream":true}`, `{"stream_options":{"include_usage":true},"model":"m","stream":true}`},
		{"white space stays", " {\n \"stream\" : true }\n", " {\"stream_options\":{\"include_usage\":true},\n \"stream\" : true }\n"},
		{"other options", `{"stream":true,"stream_options":{"a":1}}`, `{"stream":true,"stream_options":{"include_usage":true,"a":1}}`},
		{"empty options", `{"stream_options":{ },"stream":true}`, `{"stream_options":{"include_usage":true },"stream":true}`},
		{"null options", `{"stream_options": null,"stream":true}`, `{"stream_options": {"include_usage":true},"stream":true}`},
		{"it asks", `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"it declines", `{"stream":true,"stream_options":{"include_usage":false}}`, ""},
		{"no stream", `{"model":"m"}`, ""},
		{"stream false", `{"model":"m","stream":false}`, ""},
		{"options of another type", `{"stream":true,"stream_options":[1]}`, ""},
		{"options twice", `{"stream":true,"stream_options":{},"stream_options":{}}`, ""},
		{"no object", `[1]`, ""},
		{"not whole", `{"stream":true`, ""},
		{"nothing", ``, ""},
	} {
		for _, room := range []int{0, 100} { // the offsets come from capacities
			body := append(make([]byte, 0, len(c.body)+room), c.body...)
			got, changed := AskUsage(Chat, body)
			want := c.want
			if want == "" {
				want = c.body
			}
			if string(got) != want || changed != (c.want != "") || string(body) != c.body {
				t.Errorf("%s: got %s (%v), want %s", c.name, got, changed, want)
			}
		}
	}
}

// Their servers send it unasked, and Anthropic's refuses members it does not know.
func TestAskUsageLeavesOtherDialectsAlone(t *testing.T) {
	body := []byte(`{"model":"m","stream":true}`)
	for _, d := range []Dialect{Unknown, Messages, Responses, Ollama} {
		if got, changed := AskUsage(d, body); changed || string(got) != string(body) {
			t.Errorf("%v: got %s, changed %v; want the body as it was", d, got, changed)
		}
	}
}

// FuzzAskUsage: what comes out is JSON if what went in was, with one member more.
func FuzzAskUsage(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true}`))
	f.Add([]byte(`{"stream":true,"stream_options":{"a":{"include_usage":1}},"messages":[{"content":"}{"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, changed := AskUsage(Chat, body)
		var before, after map[string]any
		if !changed || json.Unmarshal(body, &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		options, _ := after["stream_options"].(map[string]any)
		if options["include_usage"] != true {
			t.Fatalf("%q became %q", body, got)
		}
		delete(options, "include_usage")
		if len(options) == 0 {
			delete(after, "stream_options")
			if o, ok := before["stream_options"].(map[string]any); !ok || len(o) == 0 {
				delete(before, "stream_options")
			}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: more than the option changed", body, got)
		}
	})
}
