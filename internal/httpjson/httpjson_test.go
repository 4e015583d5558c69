package httpjson_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"rmreplay/internal/httpjson"
)

func TestReply(t *testing.T) {
	for _, one := range []struct {
		value  any
		status int
		text   string
	}{
		{map[string]int{"jobs": 3}, http.StatusAccepted, "{\"jobs\":3}\n"},
		{math.Inf(1), http.StatusInternalServerError, "{\"error\":\"writing the answer: json: unsupported value: +Inf\"}\n"},
	} {
		w := httptest.NewRecorder()
		httpjson.Reply(w, http.StatusAccepted, one.value)
		if w.Code != one.status || w.Body.String() != one.text || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
}
