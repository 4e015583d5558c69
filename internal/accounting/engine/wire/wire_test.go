package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	var pipe bytes.Buffer
	w := NewWriter(&pipe)
	payloads := [][]byte{{}, []byte("a"), bytes.Repeat([]byte("xyz"), 1_000_000)}
	for i, payload := range payloads {
		if err := w.Send(Kind(i+1), payload); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&pipe)
	for i, payload := range payloads {
		kind, got, err := r.Next()
		if err != nil || kind != Kind(i+1) || !bytes.Equal(got, payload) {
			t.Errorf("frame %d: kind %d, %d bytes, %v", i, kind, len(got), err)
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := w.Send(Rows, make([]byte, MaxFrame+1)); err == nil || pipe.Len() > 0 {
		t.Errorf("a frame that is too large: %v", err)
	}
}

// TestDamage flips each bit of a frame, and cuts the frame at each byte. The reader refuses every
// damaged frame.
func TestDamage(t *testing.T) {
	var pipe bytes.Buffer
	if err := NewWriter(&pipe).Send(Rows, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	whole := pipe.Bytes()
	for i := range whole {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			if _, _, err := NewReader(bytes.NewReader(damaged)).Next(); err == nil {
				t.Errorf("byte %d, bit %d: read", i, bit)
			}
		}
		if _, _, err := NewReader(bytes.NewReader(whole[:i])).Next(); err == nil {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	other := bytes.Clone(whole)
	other[4] = Version + 1
	_, _, err := NewReader(bytes.NewReader(other)).Next()
	if err == nil || !strings.Contains(err.Error(), "version 2 (want 1") {
		t.Errorf("another version: %v", err)
	}
}

func TestValues(t *testing.T) {
	values := []any{nil, true, false, int8(-1), int16(-300), int32(-70000), int64(math.MinInt64),
		uint8(255), uint16(65535), uint32(math.MaxUint32), uint64(math.MaxUint64), float32(1.5), math.Inf(-1),
		"", "ü\x00", []byte{0, 255}, time.Date(1, 1, 1, 3, 4, 5, 6000, time.UTC),
		[]any{}, []any{int64(1), []any{nil}}, map[string]any{"a": int64(1), "b": map[string]any{}}}
	var b []byte
	for _, v := range values {
		var err error
		if b, err = AppendValue(b, v); err != nil {
			t.Fatal(err)
		}
	}
	d := NewDecoder(b)
	for _, want := range values {
		if got := d.Value(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
	if d.More() || d.Err() != nil {
		t.Errorf("left: %v, %v", d.More(), d.Err())
	}
	zoned := time.Date(2026, 3, 29, 3, 0, 0, 0, time.FixedZone("", 7200))
	if b, _ = AppendValue(nil, zoned); !NewDecoder(b).Value().(time.Time).Equal(zoned) {
		t.Error("a time with a zone")
	}
	if _, err := AppendValue(nil, []any{struct{}{}}); err == nil || !strings.Contains(err.Error(), "type struct {}") {
		t.Errorf("another type: %v", err)
	}
}

// FuzzValue checks that no payload makes the decoder panic or allocate much more than the payload.
func FuzzValue(f *testing.F) {
	for _, v := range []any{nil, int64(5), "text", []any{"a", nil}, map[string]any{"a": 1.5}, time.Unix(0, 0)} {
		b, err := AppendValue(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(bytes.Repeat([]byte{tagList, 1}, 1000))
	f.Add([]byte{tagList, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		d := NewDecoder(payload)
		for d.More() {
			d.Value()
		}
	})
}
