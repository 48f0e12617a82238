package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stand is where the peers stand: their environments, and what they want to be
// given beside a server.
type stand struct {
	b         *bench
	cache     string // of their environments
	tokenizer string // folder
	book      string // URL of a text
	peers     []peer // those that could be installed
}

// newStand installs the peers. One that cannot be is left out, loudly. close ends
// what it started.
func (b *bench) newStand(ctx context.Context, stderr io.Writer) (s *stand, closeStand func(), err error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, nil, err
	}
	s = &stand{b: b, cache: filepath.Join(cache, "peers"), tokenizer: filepath.Join(b.dir, "tokenizer")}
	for _, p := range peers {
		if err := p.install(ctx, s.cache, stderr); err != nil {
			fmt.Fprintf(stderr, "benchloadgen: %s IS LEFT OUT: it cannot be installed: %v\n", p.name, err)
			continue
		}
		s.peers = append(s.peers, p)
	}
	words := bookWords()
	if err := writeTokenizer(s.tokenizer, words); err != nil {
		return nil, nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	text := strings.Repeat(strings.Join(words, " ")+" ", 64)
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, text) // a reader that has left misses nothing
	})}
	s.book = "http://" + ln.Addr().String() + "/book.txt"
	done := make(chan struct{})
	go func() {
		_ = server.Serve(ln) // until Close
		close(done)
	}()
	return s, func() {
		_ = server.Close()
		<-done
	}, nil
}

// cacheDir is that of the Makefile.
func cacheDir() (string, error) {
	if dir := os.Getenv("STREAMGAUGE_CACHE"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".cache", "streamgauge"), nil
}

// bookWords are the words of the prompts.
func bookWords() []string {
	return strings.Fields("river stone amber quiet lantern orbit maple signal velvet harbor copper meadow thunder saddle walnut ember " +
		"glacier ribbon falcon cellar bridge window garden winter engine letter market island pocket silver")
}

// writeTokenizer writes a tokenizer to which a word is a token, known or not, as
// it is to the emitter: so a tool that counts for itself counts right. Form:
// tokenizer.json of Hugging Face's tokenizers, model WordLevel.
func writeTokenizer(dir string, words []string) error {
	vocab := map[string]int{"[UNK]": 0, "<s>": 1, "</s>": 2}
	special := []map[string]any{}
	for _, w := range []string{"[UNK]", "<s>", "</s>"} {
		special = append(special, map[string]any{
			"id": vocab[w], "content": w, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true,
		})
	}
	for _, w := range words {
		vocab[w] = len(vocab)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, v := range map[string]any{
		"tokenizer.json": map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": special,
			"normalizer": nil, "pre_tokenizer": map[string]any{"type": "WhitespaceSplit"}, "post_processor": nil, "decoder": nil,
			"model": map[string]any{"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
		},
		"tokenizer_config.json": map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>",
			"chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
		},
	} {
		p, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
			return err
		}
	}
	return nil
}
