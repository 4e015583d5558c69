package sweep

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

// The functions of this file are for files that describe other experiments than grids, such as searches for a setting.
// Files of other experiments have the same limits as an experiment file, and their errors have the same form.

// Decode reads a YAML file with the limits of an experiment file. Unknown keys are errors. Errors
// name the file and the line.
func Decode(path string, into any) error {
	text, err := readLimited(path)
	if err != nil {
		return fmt.Errorf("reading experiment: %w", err)
	}
	if err = checkLimits(text); err == nil {
		err = checkAliases(text)
	}
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, into, yaml.Strict())
	}
	if err != nil {
		return located(path, ofOther(text, err, "sweep", "workload", "objective"))
	}
	return nil
}

// ofOther returns err, the error about a file. If the file has the first key at its top level and not the second, it
// is a file for the other command, and the error names that command.
func ofOther(text []byte, err error, other, key, own string) error {
	var keys map[string]any
	if yaml.Unmarshal(text, &keys) != nil {
		return err
	}
	if _, has := keys[key]; !has {
		return err
	}
	if _, has := keys[own]; has {
		return err
	}
	return fmt.Errorf("it has the key %s and no %s: this is a file for rmreplay %s", key, own, other)
}

// ErrorAt makes an error about a line of a file. [Located] adds the name of the file.
func ErrorAt(line int, format string, args ...any) error { return errorAt(line, format, args...) }

// Located adds to an error the name of the file, and the line if [ErrorAt] made the error.
func Located(path string, err error) error { return located(path, err) }

// FileName returns a name in a form for file names: letters, digits and some signs. The result is empty for a name
// without letters, digits and these signs.
func FileName(name string) string { return slug(name) }

// Complete makes the checks of [Open] for an experiment that was not read from an experiment file,
// and resolves its paths. The text of its errors has no line: [Located] adds it.
func (e *Experiment) Complete(check CheckOption, together CheckVariant) error {
	e.Workload = e.resolve(e.Workload)
	if err := e.check(check); err != nil {
		return err
	}
	return e.checkVariants(together)
}
