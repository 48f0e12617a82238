package stream

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// Every …_ns is a whole number: scripts read it as one.
func TestTBTIsWhole(t *testing.T) {
	r := measure([]write{{100, c("a")}, {180, c("b")}, {181, fin("length") + u(10, 12) + done}}, Cause{Kind: EOF})
	if want := `"tbt_ns":7272727,`; !bytes.Contains(r.Append(nil), []byte(want)) {
		t.Errorf("80 ms over 11 tokens: %s, want %s", r.Append(nil), want)
	}
}

// encoding/json refuses what is not finite, and a cell would be lost over it.
func TestNullOfNotFinite(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if p, err := json.Marshal(Some(f)); err != nil || string(p) != "null" {
			t.Errorf("%v: %s, %v; want null", f, p, err)
		}
	}
}

func null64s() *rapid.Generator[Null[int64]] {
	return rapid.Custom(func(t *rapid.T) Null[int64] {
		if rapid.Bool().Draw(t, "null") {
			return Null[int64]{}
		}
		return Some(rapid.Int64().Draw(t, "n"))
	})
}

func nullInts() *rapid.Generator[Null[int]] {
	return rapid.Custom(func(t *rapid.T) Null[int] {
		if rapid.Bool().Draw(t, "null") {
			return Null[int]{}
		}
		return Some(rapid.Int().Draw(t, "n"))
	})
}

// records draws any record, by reflection so that a new field cannot be
// forgotten.
func records() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		var r Record
		anyValue(t, reflect.ValueOf(&r).Elem(), "record")
		r.Type, r.V = "record", Version
		if len(r.EventLog) == 0 {
			r.EventLog = nil // omitted when empty
		}
		return r
	})
}

func anyValue(t *rapid.T, v reflect.Value, name string) {
	switch p := v.Addr().Interface().(type) {
	case *Null[int64]:
		*p = null64s().Draw(t, name)
		return
	case *Null[int]:
		*p = nullInts().Draw(t, name)
		return
	case *Null[float64]:
		if rapid.Bool().Draw(t, name) {
			*p = Some(rapid.Float64().Draw(t, name))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			anyValue(t, v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name) {
			v.Set(reflect.New(v.Type().Elem()))
			anyValue(t, v.Elem(), name)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n := rapid.IntRange(0, 3).Draw(t, name)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			anyValue(t, v.Index(i), name)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	default:
		t.Fatalf("no generator for %s of kind %s", name, v.Kind())
	}
}

func TestAppendIsWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := records().Draw(t, "record")
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(&r); err != nil {
			t.Fatal(err)
		}
		got := append(r.Append([]byte("x")), '\n')
		if string(got) != "x"+want.String() {
			t.Fatalf("Append:\n%s\nencoding/json:\nx%s", got, want.String())
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := records().Draw(t, "record")
		line := want.Append(nil)
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("a record is one line: %q", line)
		}
		got, err := ParseRecord(line)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(*got, want); d != "" {
			t.Fatalf("got - want +:\n%s", d)
		}
	})
}

func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := records().Draw(t, "record")
		want.EventLog = nil // it is not packed
		packed := append(want.Pack([]byte("x")), "log"...)
		got, rest := Unpack(packed[1:])
		if d := cmp.Diff(*got, want, cmpopts.EquateNaNs()); d != "" || packed[0] != 'x' || string(rest) != "log" {
			t.Fatalf("behind %q and before %q, got - want +:\n%s", packed[0], rest, d)
		}
	})
}

func TestParseRecordRefuses(t *testing.T) {
	for _, c := range []struct{ name, line string }{
		{"another type: a cell is no record", `{"type":"cell","v":1}`},
		{"a version that this program does not know", `{"type":"record","v":2}`},
		{"half a line: the run was killed while writing", `{"type":"record","v":1,"id":"r`},
	} {
		if r, err := ParseRecord([]byte(c.line)); err == nil {
			t.Errorf("%s: got %+v, want an error", c.name, r)
		}
	}
}

func TestAppendWritesWhatIsNotFiniteAsNull(t *testing.T) {
	nan := 0.0
	nan /= nan
	r := Record{Type: "record", V: Version, TBTNS: Some(nan)}
	got, err := ParseRecord(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got.TBTNS.OK {
		t.Errorf("tbt_ns = %v, want null", got.TBTNS.V)
	}
}
