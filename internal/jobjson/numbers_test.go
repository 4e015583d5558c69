package jobjson

import "testing"

func TestPlainNumbers(t *testing.T) {
	for number, want := range map[string]string{
		"1e-09": "0.000000001", "-1.5E+3": "-1500", "4.0": "4", "0.10": "0.1", "0.0e5": "0", "12.345e1": "123.45", "120e-2": "1.2",
		"7": "7", "-0.25": "-0.25", "1e31": "1e31", "1e-999999999999": "1e-999999999999",
	} {
		if got := plainNumber(number); got != want {
			t.Errorf("%s: %s, want %s", number, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"a":[1e0,"1e1"],"b":{"c":2.0}}`: `{"a":[1,"1e1"],"b":{"c":2}}` + "\n",
		`{"a":10,"a":"4.0"}`:              "",
		`{"a":1e0`:                        "",
		`{"a":1e0,}`:                      "",
	} {
		if got := string(plainNumbers([]byte(text))); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
