package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// documents are the Markdown files of the repository, by their path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	texts := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.ToSlash(path)] = string(text)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		read(name)
	}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

var (
	markdownLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	markdownHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fencedBlock     = regexp.MustCompile("(?ms)^```.*?^```$")
	notInAnchors    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestDocumentLinks follows every link from one document to another file or heading.
func TestDocumentLinks(t *testing.T) {
	texts := documents(t)
	followed := 0
	for name, text := range texts {
		for _, link := range markdownLink.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			path := name
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), target))
			}
			if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
				t.Errorf("%s: link to %s, which does not exist", name, link[1])
				continue
			}
			if anchor != "" && !hasHeading(texts[path], anchor) {
				t.Errorf("%s: link to %s: no such heading", name, link[1])
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were followed", followed)
	}
}

// TestDocumentIndex: docs/README.md lists every page of docs, or the list of the page's directory does.
func TestDocumentIndex(t *testing.T) {
	texts := documents(t)
	for name := range texts {
		dir, file := filepath.Split(name)
		if dir == "" || file == "README.md" {
			continue
		}
		index := "docs/README.md"
		if _, own := texts[dir+"README.md"]; own {
			index = dir + "README.md"
		}
		link := "](" + strings.TrimPrefix(name, filepath.Dir(index)+"/") + ")"
		if !strings.Contains(texts[index], link) {
			t.Errorf("%s does not list %s", index, name)
		}
	}
}

// namedDocument matches a document's path in a program, a script or a help text.
var namedDocument = regexp.MustCompile(`\bdocs/[\w/-]+\.(?:md|json)(#[\w-]+)?`)

// TestNamedDocuments looks for every document that code, scripts, packages and the schemas name: in
// comments, in help texts and in messages.
func TestNamedDocuments(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	texts := documents(t)
	named := 0
	look := func(path string) {
		text, err := fs.ReadFile(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedDocument.FindAllString(string(text), -1) {
			named++
			document, anchor, _ := strings.Cut(name, "#")
			if _, err := fs.Stat(root, document); err != nil {
				t.Errorf("%s names %s, which does not exist", path, document)
			} else if anchor != "" && !hasHeading(texts[document], anchor) {
				t.Errorf("%s names %s: no such heading", path, name)
			}
		}
	}
	for _, dir := range []string{"cmd", "internal", "tools", "examples", "packaging", "docs/schemas"} {
		err := fs.WalkDir(root, dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "lib"):
				return fs.SkipDir
			case entry.Type().IsRegular():
				look(path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	look("Makefile")
	look("Containerfile")
	if named < 50 {
		t.Errorf("only %d names of documents were found", named)
	}
}

// documentedPath matches a file or a directory of the repository in a document.
var documentedPath = regexp.MustCompile("`((?:internal|cmd|tools|examples|packaging)/[\\w./-]+)`")

// TestDocumentedPaths looks for every file and package that a document names.
func TestDocumentedPaths(t *testing.T) {
	named := 0
	for name, text := range documents(t) {
		for _, path := range documentedPath.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := os.Stat(filepath.Join("..", "..", strings.TrimSuffix(path[1], "/..."))); err != nil {
				t.Errorf("%s names %s, which does not exist", name, path[1])
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names of files were found", named)
	}
}

// widestProse is how many columns a line of prose may have.
const widestProse = 99

// TestProseWidth: outside of tables and code, a document's lines have fewer than 100 columns. The
// command reference is generated, and its help has a test of its own.
func TestProseWidth(t *testing.T) {
	lines := 0
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "docs/commands/") || name == "CHANGELOG.md" {
			continue
		}
		fenced := false
		for number, line := range slices.Collect(strings.SplitSeq(text, "\n")) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			indent := len(line) - len(strings.TrimLeft(line, " "))
			if fenced || indent >= 4 || strings.HasPrefix(strings.TrimSpace(line), "|") {
				continue
			}
			lines++
			if width := utf8.RuneCountInString(line); width > widestProse && strings.Contains(line[indent:], " ") {
				t.Errorf("%s:%d: %d columns (want at most %d)", name, number+1, width, widestProse)
			}
		}
	}
	if lines < 1000 {
		t.Errorf("only %d lines of prose were checked", lines)
	}
}

// hasHeading reports whether a document has the heading of an anchor, as GitHub forms anchors.
func hasHeading(text, anchor string) bool {
	for _, heading := range markdownHeading.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
		slug := notInAnchors.ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestDocumentedCommands compares the command lines of all documents with the commands:
// every command and every long flag must exist.
func TestDocumentedCommands(t *testing.T) {
	root := newRootCommand(&globals{})
	checked := 0
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "docs/commands/") {
			continue // generated from the commands
		}
		for _, words := range documentedCommands(text) {
			c, _, err := root.Find(words)
			if err != nil {
				t.Errorf("%s: rmreplay %s: %v", name, strings.Join(words, " "), err)
				continue
			}
			checked++
			c.InitDefaultHelpFlag()
			for _, word := range words {
				flag, isFlag := strings.CutPrefix(word, "--")
				flag, _, _ = strings.Cut(flag, "=")
				if isFlag && flag != "" && c.Flag(flag) == nil {
					t.Errorf("%s: rmreplay %s: %s has no flag --%s", name, strings.Join(words, " "), c.CommandPath(), flag)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d command lines were checked", checked)
	}
}

// afterCommand matches what ends a command within a line of shell, or begins a comment.
var afterCommand = regexp.MustCompile("[|;&<>`)]| #")

// quoted matches an argument in quotes, which may have any of the characters of afterCommand.
var quoted = regexp.MustCompile(`'[^']*'`)

var commandName = regexp.MustCompile(`^[a-z]+$`)

// documentedCommands lists the arguments of the rmreplay commands that a document shows: in
// lines of code, and in spans of code within a line.
func documentedCommands(text string) [][]string {
	var commands [][]string
	joined := strings.ReplaceAll(strings.ReplaceAll(text, "\\\n> ", " "), "\\\n", " ")
	for line := range strings.Lines(joined) {
		code := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "$ ")
		parts := strings.Split(line, "rmreplay ")
		for i, part := range parts {
			if i == 0 {
				continue
			}
			before := parts[i-1]
			starts := before == "" || strings.HasSuffix(before, "/") || strings.HasSuffix(before, "`") ||
				code && (strings.TrimSpace(before) == "" || strings.HasSuffix(before, "$ ") || strings.HasSuffix(before, "; "))
			part = quoted.ReplaceAllString(part, "QUOTED")
			if end := afterCommand.FindStringIndex(part); end != nil {
				part = part[:end[0]]
			}
			words := strings.Fields(part)
			if starts && len(words) > 0 && commandName.MatchString(words[0]) {
				commands = append(commands, words)
			}
		}
	}
	return commands
}
