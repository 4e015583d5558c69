package transform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Further kinds of names, in addition to the kinds of [Anonymizer.Step].
const (
	kindCluster = "cluster"
	kindWord    = "xword"
)

// collectNames notes all names that will be replaced. It does so before the first replacement,
// because [Anonymizer.scrub] needs all names.
func (a *Anonymizer) collectNames(w *workload.Workload, nodes []string, users []hpc.User) error {
	note := func(names ...string) {
		for _, list := range names {
			for name := range strings.SplitSeq(list, ",") {
				if name = strings.TrimLeft(name, "+-"); name != "" {
					a.originals[name] = true
				}
			}
		}
	}
	for _, job := range w.Jobs.All() {
		note(job.User, job.Group, job.Account, job.WCKey, job.MCSLabel, job.Reservation)
		if job.Name != "" {
			a.originals[job.Name] = true
		}
	}
	for _, u := range append(slices.Clone(w.Users), users...) {
		note(u.Name, u.Group)
		note(u.Groups...)
	}
	for _, u := range w.Usage {
		note(u.Account, u.User)
	}
	for i := range w.Reservations {
		r := &w.Reservations[i]
		note(r.Name)
		note(r.Users...)
		note(r.Accounts...)
	}
	note(strings.ToLower(a.with.Cluster))
	if !a.with.KeepHosts {
		note(nodes...)
	}
	delete(a.originals, "root")
	_, err := a.accounts(string(a.with.Accounts))
	clear(a.scrubbed) // scrub did not have all names yet
	return err
}

// scrub replaces the words of a text that contain a replaced name, if the anonymizer is strict.
// Slurm's own words stay. A word gets the same replacement everywhere.
func (a *Anonymizer) scrub(text string) string {
	if !a.with.Strict {
		return text
	}
	var out strings.Builder
	start := -1
	flush := func(end int) {
		if start >= 0 {
			out.WriteString(a.scrubWord(text[start:end]))
			start = -1
		}
	}
	for i, r := range text {
		if isNameRune(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		flush(i)
		out.WriteRune(r)
	}
	flush(len(text))
	return out.String()
}

func (a *Anonymizer) scrubWord(word string) string {
	if known, ok := a.scrubbed[word]; ok {
		return known
	}
	replacement := word
	if !a.replaced[word] && !ours(word) && a.contained(word) != "" {
		replacement = a.word(kindWord, word)
	}
	a.scrubbed[word] = replacement
	return replacement
}

// Renamed returns the words that would normally stay, but were replaced because they contain a
// name.
func (a *Anonymizer) Renamed() (list []string) {
	for word, replacement := range a.scrubbed {
		if word != replacement {
			list = append(list, replacement)
		}
	}
	slices.Sort(list)
	return list
}

// LeftOut returns the keys and attributes of the cluster's files that were left out.
func (a *Anonymizer) LeftOut() []string { return sortedKeys(a.leftOut) }

// Replaced returns how many names were replaced.
func (a *Anonymizer) Replaced() int { return len(a.originals) }

// longName is the length from which a name is also found within a longer word: shorter names occur in
// words by chance.
const longName = 6

// contained returns the longest replaced name that a word contains. The name may be the whole
// word, a part between digits and punctuation, or, if the name is long, any part.
func (a *Anonymizer) contained(word string) (found string) {
	if a.lowerOriginals == nil || a.counted != len(a.originals) {
		a.indexOriginals()
	}
	word = strings.ToLower(word)
	see := func(part string) {
		if len(part) > 1 && len(part) > len(found) && a.lowerOriginals[part] {
			found = part
		}
	}
	see(word)
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r < 'a' || r > 'z' && r < 128 }) {
		see(part)
	}
	for _, n := range a.lengths {
		for i := 0; i+n <= len(word); i++ {
			see(word[i : i+n])
		}
	}
	return found
}

// indexOriginals prepares the data that [Anonymizer.contained] searches.
func (a *Anonymizer) indexOriginals() {
	a.lowerOriginals, a.lengths, a.counted = map[string]bool{}, nil, len(a.originals)
	seen := map[int]bool{}
	for name := range a.originals {
		name = strings.ToLower(name)
		if ours(name) || slices.ContainsFunc(a.with.Allow, func(n string) bool { return strings.EqualFold(n, name) }) || strings.Trim(name, "0123456789") == "" {
			continue // a number is not a name
		}
		a.lowerOriginals[name] = true
		if n := len(name); n >= longName && !seen[n] {
			seen[n] = true
			a.lengths = append(a.lengths, n)
		}
	}
}

// ours reports whether a word belongs to Slurm or to the trace format. Such words always stay.
func ours(word string) bool { return vocabulary[strings.ToLower(word)] }

// vocabulary are the words of the formats of a trace and of a cluster's files that are not keys.
var vocabulary = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`
		root normal default all none yes no force up down drain idle future unknown unlimited infinite anonymous controller database
		slurm gpu mps shard bb cpu mem node nodes billing energy fs license gres job user users account accounts reservation usage
		create update delete resume fail completed failed cancelled timeout node_fail preempted out_of_memory boot_fail deadline running
		pending rejected true false add modify where set cluster qos wckey coordinator parent name batch made rmreplay trace
		afterok afterany afternotok aftercorr after singleton exclusive mcs published bursts like fitting users`) {
		set[word] = true
	}
	for key := range exported {
		set[key] = true
	}
	return set
}()

// completion returns a completion without names. The error says that a host list is wrong.
func (a *Anonymizer) completion(c *workload.Completion) (*workload.Completion, error) {
	out := *c
	var err error
	out.Fields = slices.Clone(c.Fields)
	for i := range out.Fields {
		out.Fields[i].Rule = a.scrub(out.Fields[i].Rule)
	}
	out.Site.Partitions = slices.Clone(c.Site.Partitions)
	for i := range out.Site.Partitions {
		p := &out.Site.Partitions[i]
		p.Name = a.scrub(p.Name)
		if p.NodeList, err = a.nodes(p.NodeList); err != nil {
			return nil, err
		}
		p.QOS = slices.Clone(p.QOS)
		for k := range p.QOS {
			p.QOS[k] = a.scrub(p.QOS[k])
		}
	}
	out.Site.QOS = slices.Clone(c.Site.QOS)
	for i := range out.Site.QOS {
		out.Site.QOS[i].Name = a.scrub(out.Site.QOS[i].Name)
	}
	if c.Like != nil {
		like := *c.Like
		like.Source = "anonymous"
		out.Like = &like
	}
	return &out, nil
}

// Remainder is a replaced name that a file still has.
type Remainder struct {
	File string `json:"file"`
	Word string `json:"word"`
	Name string `json:"name"`
}

// Inventory looks through all words of a file for replaced names. It skips keys of JSON, Slurm's
// own words, and the replacements themselves. It returns the first occurrence of each word.
func (a *Anonymizer) Inventory(file string, text []byte) (left []Remainder) {
	seen := map[string]bool{}
	look := func(words string) {
		for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return !isNameRune(r) }) {
			if seen[word] || a.replaced[word] || ours(word) || a.isNode(word) || strings.Trim(word, "0123456789-_.TZ") == "" {
				continue
			}
			seen[word] = true
			if name := a.contained(word); name != "" {
				left = append(left, Remainder{file, word, name})
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		if values, ok := jsonValues(line); ok {
			for _, value := range values {
				look(value)
			}
			continue
		}
		look(line)
	}
	return left
}

// isNode reports whether a word is a node's replacement name, or the beginning of such a name in a
// host list.
func (a *Anonymizer) isNode(word string) bool {
	const length = len("n000abcdef")
	return len(word) >= length && a.nodeNames()[word[:length]] && strings.Trim(word[length:], "0123456789x-") == ""
}

func (a *Anonymizer) nodeNames() map[string]bool {
	if a.newNodes == nil {
		a.newNodes = map[string]bool{}
		for _, name := range a.patterns {
			a.newNodes[name] = true
		}
	}
	return a.newNodes
}

// jsonValues returns the texts in a line of JSON that are not keys of our formats. ok is false if
// the line is not JSON.
func jsonValues(line string) (values []string, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return nil, false
	}
	var object any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		return nil, false
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			values = append(values, v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(object)
	return values, true
}

// ErrRemains makes an error of the names that an inventory found.
func ErrRemains(left []Remainder) error {
	if len(left) == 0 {
		return nil
	}
	first := left[0]
	return fmt.Errorf("%d words still contain a name that must be replaced; the first is %s in %s, with the name %s",
		len(left), first.Word, first.File, first.Name)
}
