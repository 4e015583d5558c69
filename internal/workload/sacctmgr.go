package workload

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"rmreplay/internal/lines"
)

// ConvertAccountsDump reads the output of `sacctmgr dump CLUSTER`. It returns the commands for
// `sacctmgr -i` that make the same associations in an empty database. A dump has only the names of
// QOS. The result qos lists these names, and the commands make these QOS with sacctmgr's defaults.
// The parameter name is the source's name in errors, which have the form "reading accounts:
// NAME:LINE: what is wrong".
func ConvertAccountsDump(r io.Reader, name string) (commands string, qos []string, err error) {
	d := accountsDump{parent: "root"}
	if err := lines.Each(r, name, d.line); err != nil {
		return "", nil, fmt.Errorf("reading accounts: %w", err)
	}
	if d.cluster == "" {
		return "", nil, fmt.Errorf("reading accounts: %s: no line Cluster - 'NAME' (want what sacctmgr dump writes)", name)
	}
	var b strings.Builder
	for _, q := range d.qos {
		if q != "normal" { // every database already has it
			fmt.Fprintf(&b, "add qos name=%s\n", q)
		}
	}
	b.WriteString(d.cluster)
	for _, line := range d.lines {
		b.WriteString(line)
	}
	return b.String(), d.qos, nil
}

type accountsDump struct {
	parent  string
	cluster string
	lines   []string
	qos     []string
}

func (d *accountsDump) line(_ int, line []byte) error {
	text := strings.TrimSpace(lines.UTF8(line))
	if text == "" || text[0] == '#' {
		return nil
	}
	kind, rest, found := strings.Cut(text, " - ")
	if !found {
		return fmt.Errorf("%.60q: want Cluster, Parent, Account or User - 'NAME':options", text)
	}
	fields, err := splitDump(rest)
	if err != nil {
		return err
	}
	if fields[0] == "" {
		return errors.New("an empty name")
	}
	options := d.options(fields[1:])
	switch kind {
	case "Cluster":
		if d.cluster != "" {
			return errors.New("a second cluster (want the dump of one)")
		}
		d.cluster = "add cluster name=" + quoteValue(fields[0]) + options + "\n"
	case "Parent":
		d.parent = fields[0]
	case "Account":
		if fields[0] != "root" {
			d.lines = append(d.lines, fmt.Sprintf("add account name=%s parent=%s%s\n", quoteValue(fields[0]),
				quoteValue(d.parent), options))
		}
	case "User":
		if fields[0] != "root" {
			d.lines = append(d.lines, fmt.Sprintf("add user name=%s account=%s%s\n", quoteValue(fields[0]), quoteValue(d.parent),
				options))
		}
	default:
		return fmt.Errorf("%s: not known (want Cluster, Parent, Account or User)", kind)
	}
	return nil
}

// options writes the dump's options as options of a command.
func (d *accountsDump) options(fields []string) string {
	var b strings.Builder
	for _, field := range fields {
		key, value, found := strings.Cut(field, "=")
		if !found || value == "" {
			continue
		}
		if strings.EqualFold(key, "QOS") || strings.EqualFold(key, "DefaultQOS") {
			for q := range strings.SplitSeq(value, ",") {
				if q = strings.TrimLeft(q, "+-"); q != "" && !slices.Contains(d.qos, q) {
					d.qos = append(d.qos, q)
				}
			}
		}
		fmt.Fprintf(&b, " %s=%s", key, quoteValue(value))
	}
	return b.String()
}

func quoteValue(v string) string {
	if strings.ContainsAny(v, " \t'") {
		return `"` + strings.ReplaceAll(v, `"`, "") + `"`
	}
	return v
}

// splitDump splits 'NAME':Key=value:Key='a:b' at the colons outside quotes and removes the
// quotes.
func splitDump(text string) ([]string, error) {
	var fields []string
	var field strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case c == ':' && !quoted:
			fields = append(fields, field.String())
			field.Reset()
		default:
			field.WriteByte(c)
		}
	}
	if quoted {
		return nil, errors.New("a quote (') is not closed")
	}
	return append(fields, field.String()), nil
}
