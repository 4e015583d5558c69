package document

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"rmreplay/internal/lines"
)

// impersonal are the keys whose values [Anonymizer.Document] does not remove. They describe a
// job's request, its allocation and its wait, and where it ran. The user chooses other keys (names
// of jobs and files, comments), or they identify the user, or their meaning is unknown.
var impersonal = keys("jobid", "cluster", "state", "@submit", "@eligible", "@start", "@end", "@queue_wait", "elapsed",
	"time_limit", "total_cpus", "total_nodes", "cpu_hours", "exit_code", "derived_ec", "account", "parent_accounts",
	"partition", "qos", "reservation_name", "array_job_id", "array_task_id", "array_task_str", "het_job_id",
	"het_job_offset", "pack_job_id", "pack_job_offset", "ntasks", "ntasks_per_node", "ntasks_per_tres", "cpus_per_task",
	"priority", "nodes", "alloc_node", "failed_node", "excluded_nodes", "orig_dependency", "features", "tres_req",
	"tres_alloc", "tres_req_raw", "tres_alloc_raw", "req_cpus", "req_nodes", "req_cpus_per_node", "req_mem",
	"req_mem_per_node", "req_mem_per_cpu", "req_gpus", "req_gres", "licenses", "suspended", "run_time", "restarts", "held",
	"flags", "waits", "used_memory", "moved_bytes", "whole_line", "sluid", "original_sluid")

// Anonymizer removes the data that identify certain users from documents.
type Anonymizer struct {
	as    string
	names *regexp.Regexp // matches the users' names as whole words
}

// NewAnonymizer returns an [Anonymizer] that replaces the name of each user by the name as. It
// returns an error if there are no users or if as is "".
func NewAnonymizer(users []string, as string) (*Anonymizer, error) {
	if len(users) == 0 || as == "" {
		return nil, errors.New("anonymizing documents: the user or the new name is missing (want both)")
	}
	var words []byte
	for _, name := range users {
		if len(words) > 0 {
			words = append(words, '|')
		}
		words = append(words, regexp.QuoteMeta(name)...)
	}
	names, err := regexp.Compile(`(^|[^0-9A-Za-z_.-])(` + string(words) + `)($|[^0-9A-Za-z_.-])`)
	if err != nil {
		return nil, fmt.Errorf("anonymizing documents: %w", err)
	}
	return &Anonymizer{as, names}, nil
}

// Document anonymizes a document of one of the users. The result keeps the values that describe
// the job's request, its allocation and its wait. If such a value contains a user's name as a
// whole word, as an account named after its user does, the new name replaces this word. cluster is
// the cluster of the document's run. If the document has a start or a submit time, the result
// identifies the same run. The error is not nil if the text is not a JSON object.
func (a *Anonymizer) Document(text []byte, cluster string) ([]byte, error) {
	if !utf8.Valid(text) {
		text = []byte(lines.UTF8(text))
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errors.New("anonymizing a document: it is not a JSON object")
	}
	write := func(tokens ...jsontext.Token) error {
		for _, t := range tokens {
			if err := e.WriteToken(t); err != nil {
				return fmt.Errorf("anonymizing a document: %w", err)
			}
		}
		return nil
	}
	if err := write(jsontext.BeginObject, jsontext.String("username"), jsontext.String(a.as)); err != nil {
		return nil, err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("anonymizing a document: %w", err)
		}
		key := name.String()
		if kind := d.PeekKind(); !impersonal[key] || key == "cluster" || kind == '{' || kind == '[' {
			if err := d.SkipValue(); err != nil {
				return nil, fmt.Errorf("anonymizing a document: the value of %q: %w", key, err)
			}
			continue
		}
		value, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("anonymizing a document: the value of %q: %w", key, err)
		}
		value = value.Clone()
		if value.Kind() == '"' {
			value = jsontext.String(a.rename(value.String()))
		}
		if err := write(jsontext.String(key), value); err != nil {
			return nil, err
		}
	}
	if token, err := d.ReadToken(); err != nil || token.Kind() != '}' {
		return nil, errors.New("anonymizing a document: its JSON object is not closed")
	}
	if err := write(jsontext.String("cluster"), jsontext.String(cluster), jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// rename replaces each user's name where it is a whole word. It makes two passes, because one pass
// misses the second of two names with only one character between them.
func (a *Anonymizer) rename(text string) string {
	for range 2 {
		text = a.names.ReplaceAllString(text, "${1}"+strings.ReplaceAll(a.as, "$", "$$")+"${3}")
	}
	return text
}
