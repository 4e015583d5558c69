package accountingcmd

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"rmreplay/internal/accounting/service"
)

// TestServeFlags checks which combinations of flags are accepted, and the errors for the others.
func TestServeFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                      "want either DIR or --run RUN",
		"--data d --run r":                      "want either DIR or --run RUN",
		"--data d --url u":                      "--url and --url-auth need --store elasticsearch",
		"--data d --retention -400d":            "--retention -9600h0m0s: negative",
		"--data d --sdiag-keep -1d":             "negative",
		"--data d --retention 400":              "400: a number without a unit (want 400d, 400h, ",
		"--data d --sdiag-keep 400":             "400: a number without a unit (want 400d, 400h, ",
		"--data d --memory -5":                  "want at least 64",
		"--data d --store x":                    `--store "x": want embedded or elasticsearch`,
		"--run r --forward u":                   "--forward needs --data",
		"--run r --kafka b/t":                   "--kafka needs --data",
		"--data d":                              "",
		"--data d --forward u":                  "",
		"--store elasticsearch":                 "--store elasticsearch needs --url",
		"--store elasticsearch --url u --run r": "want one of these flags",
		"--store elasticsearch --url u --forward v --data d": "want no --forward",
		"--store elasticsearch --url u --kafka b/t":          "--kafka needs --data",
		"--store elasticsearch --url u --url-auth f":         "",
		"--store elasticsearch --url u --kafka b/t --data d": "",
	} {
		var opts service.Serve
		var listen string
		c := &cobra.Command{}
		addServeFlags(c, &opts, &listen)
		err := c.ParseFlags(strings.Fields(args))
		if err == nil {
			err = commands{}.checkServe(&opts)
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if err == nil && (opts.Store == service.Elasticsearch) != (opts.URL != "") {
			t.Errorf("%s: %+v", args, opts)
		}
	}
}

// TestExportFormat checks the format that follows from a file's name and the flag --format.
func TestExportFormat(t *testing.T) {
	for _, c := range []struct{ path, format, want, says string }{
		{"a.csv.gz", "", "csv", ""}, {"a.jsonl", "", "trace", ""}, {"a", "swf", "swf", ""},
		{"a.zzz", "", "", "--output a.zzz: its name does not say the format"}, {"a.csv", "x", "", `--format "x": not known`},
		{"a.parquet.gz", "", "", "a Parquet file is compressed inside"}, {"a.gz", "parquet", "", "a Parquet file is compressed inside"},
	} {
		got, err := formatFor(c.path, c.format)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s as %q: %q %v, want %q %q", c.path, c.format, got, err, c.want, c.says)
		}
	}
}

// TestRemoveYear checks that a year is not read as seconds since 1970, which would remove all jobs.
func TestRemoveYear(t *testing.T) {
	for _, text := range []string{"2024", "20240305"} {
		c := commands{}.remove()
		c.SetArgs([]string{t.TempDir(), "--start", text, "--dry-run"})
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), text+": a time in 1973 or earlier (want a date") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
