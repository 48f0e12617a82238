package upstream

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/streamgauge/streamgauge/stamp"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func TestFramings(t *testing.T) {
	for _, tt := range []struct {
		name, method, response string
		body                   string
		length                 int64
		again                  bool // the connection is used again
	}{
		{"chunked", "POST", chunkedHead + "3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", -1, true},
		{"chunked, empty", "POST", chunkedHead + "0\r\n\r\n", "", -1, true},
		{"chunked, dirty", "POST", chunkedHead + "1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", "a", -1, false},
		{"length", "POST", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", 5, true},
		{"length 0", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 0, true},
		{"length twice, the same", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "hi", 2, true},
		{"length, dirty", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!", "hi", 2, false},
		{"length, close", "POST", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nhi", "hi", 2, false},
		{"chunked beside a length", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "a", -1, false},
		{"HEAD keeps the length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", "", 500, true},
		{"204", "POST", "HTTP/1.1 204 No Content\r\n\r\n", "", -1, true},
		{"304 keeps the length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "", 7, true},
		{"HTTP/1.0 with a length", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", 2, false},
		{"HTTP/1.0 keep-alive", "POST", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", "hi", 2, true},
		{"bare LF in the head", "POST", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "hi", 2, true},
		{"interim responses", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serveRaw(t, reply(tt.response)).client(t)
			for range 2 {
				before := stamp.Now()
				r, err := c.Do(context.Background(), &Request{Method: tt.method, Target: []byte("/")})
				if err != nil {
					t.Fatal(err)
				}
				if r.Sent < before || r.HeadersAt < r.Sent-1000 {
					t.Errorf("got sent %v and headers %v after the call, want them in order", r.Sent.Sub(before), r.HeadersAt.Sub(before))
				}
				if r.ContentLength != tt.length {
					t.Errorf("got length %d, want %d", r.ContentLength, tt.length)
				}
				if got := bodyOf(t, r); got != tt.body {
					t.Errorf("got body %q, want %q", got, tt.body)
				}
				if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("read after the end: got %v, want io.EOF", err)
				}
			}
			want := Stats{Open: 0, Idle: 0, Dials: 2}
			if tt.again {
				want = Stats{Open: 1, Idle: 1, Dials: 1}
			}
			if got := c.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	for _, tt := range []struct {
		name, response string
		op             Op
		says           string
	}{
		{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n", OpHeader, "does not begin with"},
		{"HTTP/2", "\x00\x00\x12\x04\x00\x00\x00", OpHeader, "does not begin with"},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", OpHeader, "status line"},
		{"header without a colon", "HTTP/1.1 200 OK\r\nNonsense\r\n\r\n", OpHeader, "without a name"},
		{"space in a name", "HTTP/1.1 200 OK\r\nA B: c\r\n\r\n", OpHeader, "without a name"},
		{"NUL in a value", "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n", OpHeader, "NUL"},
		{"bare CR", "HTTP/1.1 200 OK\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n", OpHeader, "bare CR"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", OpHeader, "differ"},
		{"signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na", OpHeader, "is not a length"},
		{"length over int64", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\na", OpHeader, "Content-Length"},
		{"other transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", OpHeader, "other than chunked"},
		{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", OpHeader, "other than chunked"},
		{"head over 64 KiB", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxHead) + "\r\n\r\n", OpHeader, "65536 bytes"},
		{"chunk size is no number", chunkedHead + "xyz\r\n", OpBody, "chunk size"},
		{"chunk size is negative", chunkedHead + "-1\r\n", OpBody, "chunk size"},
		{"chunk size over int64", chunkedHead + "fffffffffffffffff\r\n", OpBody, "chunk size"},
		{"chunk longer than it says", chunkedHead + "1\r\nab\r\n", OpBody, "CRLF"},
		{"LF in a chunk extension", chunkedHead + "1;x\n\r\na\r\n", OpBody, "CRLF"},
		{"extension without an end", chunkedHead + "1;" + strings.Repeat("x", maxExt+1), OpBody, "4 KiB"},
		{"trailers without an end", chunkedHead + "0\r\n" + strings.Repeat("A: b\r\n", maxHead/6+1), OpBody, "64 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := serveRaw(t, reply(tt.response)).client(t)
			r, err := c.Do(context.Background(), post("{}"))
			if tt.op == OpBody {
				if err != nil {
					t.Fatal(err)
				}
				_, err = io.ReadAll(r)
				r.Close()
			}
			wantOp(t, err, tt.op, nil)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got error %v, want it to say %q", err, tt.says)
			}
			if got := c.Stats(); got.Open != 0 {
				t.Errorf("got %+v, want no open connection", got)
			}
		})
	}
}

func TestHeaderIsKept(t *testing.T) {
	const lines = "date: Mon, 30 Nov 2026 10:00:00 GMT\nSERVER: uvicorn\nx-Odd-CASE: 1\nX-Dup: a\nX-Dup: b\nSet-Cookie: k=v; Path=/\nset-cookie: l=w\nContent-Type: text/plain\nX-Empty: \nX-Folded: one    two\nX-Spaced: v\nContent-Length: 2\n"
	raw := strings.NewReplacer("one    two", "one \r\n  two", "X-Spaced:", "X-Spaced :").Replace(strings.ReplaceAll(lines, "\n", "\r\n"))
	c := serveRaw(t, reply("HTTP/1.1 499 Odd  Reason\r\n"+raw+"\r\nhi")).client(t)
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := strings.Replace(lines, "one    two", "one     two", 1) // CR LF are blanked
	if got := fieldsText(r.Fields); got != want {
		t.Errorf("got fields\n%s\nwant\n%s", got, want)
	}
	if r.Status != 499 || string(r.Reason) != "Odd  Reason" {
		t.Errorf("got status %d %q, want 499 and its own reason", r.Status, r.Reason)
	}
	for name, value := range map[string]string{"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "x-dup": "a", "x-empty": ""} {
		if got := r.Get(name); string(got) != value {
			t.Errorf("field %s: got %q, want %q", name, got, value)
		}
	}
	if got := r.Get("X-Missing"); got != nil {
		t.Errorf("a field that is not there: got %q, want nil", got)
	}
}

func TestHeaderWithoutALength(t *testing.T) {
	for _, tt := range []struct{ name, method, ctype, body string }{
		{"close-delimited", "POST", "text/event-stream", "data: x\n\n"},
		{"HEAD", "HEAD", "text/event-stream", ""},
		{"no content type", "POST", "", "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head := "HTTP/1.0 200 OK\r\n"
			if tt.ctype != "" {
				head += "Content-Type: " + tt.ctype + "\r\n"
			}
			r, err := serveRaw(t, closing(head+"\r\n"+tt.body)).client(t).Do(context.Background(), &Request{Method: tt.method})
			if err != nil {
				t.Fatal(err)
			}
			if got := bodyOf(t, r); got != tt.body {
				t.Errorf("got body %q, want %q", got, tt.body)
			}
			if got := r.Get("Content-Type"); string(got) != tt.ctype {
				t.Errorf("got content type %q, want %q as it was sent", got, tt.ctype)
			}
			if te := r.Get("Transfer-Encoding"); te != nil || r.ContentLength != -1 {
				t.Errorf("got length %d, transfer encoding %q, want -1 and none", r.ContentLength, te)
			}
		})
	}
}

func TestTrailer(t *testing.T) {
	c := serveRaw(t, reply(chunkedHead+"1\r\na\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n")).client(t)
	for range 2 {
		r, err := c.Do(context.Background(), post("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if fields, err := r.Trailer(); fields != nil || err != nil {
			t.Errorf("before the end: got %v, %v, want none", fields, err)
		}
		bodyOf(t, r)
		fields, err := r.Trailer()
		if got, want := fieldsText(fields), "X-Sum: 1\nx-sum: 2\n"; got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got := c.Stats().Dials; got != 1 {
		t.Errorf("got %d dials, want 1", got)
	}
}

func TestUseAfterClose(t *testing.T) {
	c := serveRaw(t, reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")).client(t)
	r, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	bodyOf(t, r)
	r.Cancel(errors.New("late")) // must not hit the pooled connection
	r.Close()
	second, err := c.Do(context.Background(), post("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, second); got != "hi" || second.Retries != 0 || c.Stats().Dials != 1 {
		t.Errorf("got %q, %d retries, %d dials, want hi over the same connection", got, second.Retries, c.Stats().Dials)
	}
}
