// Package httpjson answers HTTP requests with JSON.
package httpjson

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Reply answers with a value as JSON and a line break. A value that cannot be JSON is an internal
// error. A client that has closed its connection gets no answer.
func Reply(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
		text, _ = json.Marshal(map[string]string{"error": fmt.Sprintf("writing the answer: %v", err)}) // text is always JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
