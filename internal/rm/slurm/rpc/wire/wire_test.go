package wire

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBytes(t *testing.T) {
	var e Encoder
	e.U8(1)
	e.U16(2)
	e.U32(3)
	e.U64(4)
	e.Bool16(true)
	e.Time(-1)
	e.Str("")
	e.Str("ab")
	e.Strs([]string{"", "c\x00d"})
	e.U32s([]uint32{5})
	e.Mem([]byte{6})
	want := "01" + "0002" + "00000003" + "0000000000000004" + "0001" + "ffffffffffffffff" +
		"00000000" + "00000003616200" + "00000002" + "0000000100" + "000000026300" +
		"0000000100000005" + "0000000106"
	if got := hex.EncodeToString(e.Bytes); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// A decoder reads back what an encoder has written, and no bytes are left.
func TestRoundTrip(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab[]é")))
	rapid.Check(t, func(t *rapid.T) {
		s, list := text.Draw(t, "string"), rapid.SliceOfN(text, 1, -1).Draw(t, "list")
		numbers := rapid.SliceOfN(rapid.Uint32(), 1, -1).Draw(t, "numbers")
		at := rapid.Int64().Draw(t, "time")
		var e Encoder
		e.Str(s)
		e.Strs(list)
		e.U32s(numbers)
		e.Time(at)
		d := NewDecoder("values", e.Bytes)
		gotS, gotList, gotNumbers, gotAt := d.Str("string"), d.Strs("list"), d.U32s("numbers"), d.Time("time")
		if err := d.Finish(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{s, list, numbers, at}, []any{gotS, gotList, gotNumbers, gotAt}); diff != "" {
			t.Error(diff)
		}
	})
}

// A decoder refuses an impossible value, names the field in the error, and then returns zero.
func TestDecoderRefuses(t *testing.T) {
	for _, c := range []struct {
		bytes, want string
		read        func(*Decoder)
	}{
		{"00", "decoding it at byte 0: n needs 2 bytes, 1 are left", func(d *Decoder) { d.U16("n") }},
		{"00000002" + "61", "at byte 4: s is 2 bytes long, 1 are left", func(d *Decoder) { d.Str("s") }},
		{"00000001" + "61", "s does not end in NUL", func(d *Decoder) { d.Str("s") }},
		{"ffffffff" + "00", "a has 4294967295 elements, 1 bytes are left", func(d *Decoder) { d.U64s("a") }},
		{"00000001" + "0000", "a has 1 elements, 2 bytes are left", func(d *Decoder) { d.U32s("a") }},
		{"0102", "1 bytes are left after the last field", func(d *Decoder) { d.U8("n") }},
		{"00000008" + "61616161", "bits is 1633771873 bytes long, 0 are left", func(d *Decoder) { d.SkipBitmap("bits") }},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder("it", b)
		c.read(&d)
		if err := d.Finish(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.bytes, err, c.want)
		}
		if d.U8("more") != 0 || d.Str("more") != "" || d.Strs("more") != nil || d.Taken(func() {}) != nil {
			t.Errorf("%s: the decoder reads on after the failure", c.bytes)
		}
	}
	none := NewDecoder("it", []byte{0xff, 0xff, 0xff, 0xfe})
	none.SkipBitmap("bits")
	if err := none.Finish(); err != nil {
		t.Errorf("a bitmap that is not there: %v", err)
	}
}
