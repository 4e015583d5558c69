package flags

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/hpc"
)

// Numbers makes all flags with numbers accept them as people write them: 10k and 28,475 for whole
// numbers, and 95% for other numbers. It does not change the flag of a seed, because a seed is a
// name.
func Numbers(f *pflag.FlagSet) {
	f.VisitAll(func(flag *pflag.Flag) {
		kind := flag.Value.Type()
		whole := kind == "int" || kind == "int64"
		if _, done := flag.Value.(number); done || !whole && kind != "float64" {
			return
		}
		flag.Value = number{flag.Value, whole}
	})
}

// Memory adds a flag for an amount of memory, in MiB without a unit (512) or with a unit (4G).
func Memory(f *pflag.FlagSet, to *int, name string, byDefault int, usage string) {
	*to = byDefault
	f.Var((*memory)(to), name, usage)
}

// memory is the value of a flag, in MiB.
type memory int

func (m *memory) Type() string   { return "memory" }
func (m *memory) String() string { return strconv.Itoa(int(*m)) }

// Set reads the value.
func (m *memory) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		*m = memory(n)
		return nil
	}
	bytes, ok := hpc.ParseBytes(text)
	if !ok {
		return errors.New("not an amount of memory (want, for example, 512 for MiB, or 4G)")
	}
	*m = memory(bytes >> 20)
	return nil
}

// number is the value of a flag.
type number struct {
	pflag.Value
	whole bool
}

// Set reads the value. It passes a text that is not a number to the flag unchanged: the flag's
// error says what is wrong. It refuses a plus sign, because +20% could mean 0.2 or 1.2.
func (n number) Set(text string) error {
	if strings.HasPrefix(text, "+") {
		return errors.New("a number with a plus sign (want it without the sign)")
	}
	switch plain, percent := strings.CutSuffix(text, "%"); {
	case n.whole:
		text = wholeNumber(text)
	case percent:
		if f, err := strconv.ParseFloat(strings.TrimSpace(plain), 64); err == nil {
			text = strconv.FormatFloat(f/100, 'g', -1, 64)
		}
	}
	return n.Value.Set(text)
}

// wholeNumber expands a number: it removes separators of thousands, and replaces k, M or G by the
// zeros of a thousand, a million or a thousand millions.
func wholeNumber(text string) string {
	plain := text
	if groups := strings.Split(text, ","); len(groups) > 1 {
		for _, g := range groups[1:] {
			if len(g) != 3 {
				return text
			}
		}
		plain = strings.Join(groups, "")
	}
	factor := 1.0
	if n := len(plain) - 1; n > 0 {
		switch plain[n] {
		case 'k', 'K':
			factor = 1e3
		case 'm', 'M':
			factor = 1e6
		case 'g', 'G':
			factor = 1e9
		}
		if factor > 1 {
			plain = plain[:n]
		}
	}
	f, err := strconv.ParseFloat(plain, 64)
	if err != nil || f*factor != float64(int64(f*factor)) {
		return text
	}
	return strconv.FormatInt(int64(f*factor), 10)
}
