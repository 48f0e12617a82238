package configs

import (
	"encoding/json"
	"strings"
	"testing"
)

// R25: whatever is given, what is shown and kept holds no secret.
func TestR25SettingsHoldNoSecret(t *testing.T) {
	const secret = "hunter2-plainly-secret"
	_, l, err := LoadLoadgen(flags(t, LoadgenKeys(),
		"--url", "http://me:"+secret+"@h:1/v1?key="+secret,
		"--engine-metrics", "http://h:2/metrics?token="+secret,
		"--header", "Authorization: Bearer "+secret, "--header", "X-Api-Key:"+secret, "--header", "X-Team: a, b",
		"--extra-body", `{"api_key":"sk-`+secret+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(l.Settings())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), secret) {
		t.Errorf("the settings show a secret: %s", b)
	}
	for _, want := range []string{`"value":"http://h:1"`, "X-Team:a, b", `"name":"seed","value":"1","source":"default"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the settings lack %s: %s", want, b)
		}
	}
	if b, err = json.Marshal(l); err != nil || strings.Contains(string(b), secret) {
		t.Errorf("Loaded itself shows a secret: %s, %v", b, err)
	}
}

// R25: a mistake in a secret setting does not show it.
func TestR25MistakesHoldNoSecret(t *testing.T) {
	const secret = "hunter2-plainly-secret"
	for _, args := range [][]string{
		{"--url", "htp://me:" + secret + "@h"},
		{"--url", "http://me:" + secret + "@h:port"},
		{"--url", "http://h\x7f/?key=" + secret},
		{"--url", "http://me:" + secret + "@h/v1/models#x"},
		{"--header", secret},
		{"--header", "Host: " + secret},
		{"--header", "Authorization: " + secret + "\n"},
		{"--extra-body", `{"stream":"` + secret + `"}`},
		{"--extra-body", secret},
	} {
		_, _, err := LoadLoadgen(flags(t, LoadgenKeys(), args...))
		if err == nil && args[0] != "--header" {
			t.Errorf("%q: no error", args)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows it: %v", args, err)
		}
	}
}

func TestAPIKey(t *testing.T) {
	file := write(t, "key", "  from-the-file\n")
	for _, tc := range []struct {
		name, file, env, openai, want, err string
	}{
		{"none", "", "", "", "", ""},
		{"the last resort", "", "", "from-openai", "from-openai", ""},
		{"our own variable first", "", "from-env", "from-openai", "from-env", ""},
		{"the file before all", file, "from-env", "from-openai", "from-the-file", ""},
		{"empty file", write(t, "key", "\n"), "", "", "", "is empty"},
		{"a file of something else", write(t, "key", "one two"), "", "", "", "more than one word"},
		{"far too large", write(t, "key", strings.Repeat("x", maxSecret+1)), "", "", "", "which is no key"},
		{"gone since", "/nowhere/key", "", "", "", "no such file"},
	} {
		t.Setenv("STREAMGAUGE_API_KEY", tc.env)
		t.Setenv("OPENAI_API_KEY", tc.openai)
		c := Loadgen{APIKeyFile: tc.file}
		got, err := c.APIKey()
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && (!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "one two")) {
			t.Errorf("%s: %q, %v, want %q, %q", tc.name, got, err, tc.want, tc.err)
		}
	}
}
