package syntax

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a key's value: one of the S_P_ types of Slurm's parser.
type Kind uint8

// The kinds.
const (
	String Kind = iota
	Uint16
	Uint32
	Uint64
	Boolean
)

// Check returns an error for a value that Slurm's parser refuses for the kind.
func (k Kind) Check(value string) error {
	switch k {
	case Uint16:
		_, err := ParseUint(value, math.MaxUint16)
		return err
	case Uint32:
		_, err := ParseUint(value, math.MaxUint32)
		return err
	case Uint64:
		_, err := ParseUint(value, math.MaxUint64)
		return err
	case Boolean:
		_, err := ParseBool(value)
		return err
	}
	return nil
}

// ParseUint reads a number as Slurm's s_p_handle_uint16, 32 and 64 do. The number is decimal,
// hexadecimal (0x) or octal (0). "k" multiplies it by 1024 (not for 16 bits). UNLIMITED and
// INFINITE are the largest value of the type.
func ParseUint(s string, maximum uint64) (uint64, error) {
	if strings.EqualFold(s, "UNLIMITED") || strings.EqualFold(s, "INFINITE") {
		return maximum, nil
	}
	digits, factor := strings.TrimPrefix(s, "+"), uint64(1)
	if n := len(digits) - 1; n > 0 && maximum > math.MaxUint16 && (digits[n] == 'k' || digits[n] == 'K') {
		digits, factor = digits[:n], 1024
	}
	base := 10
	switch {
	case len(digits) > 2 && (digits[:2] == "0x" || digits[:2] == "0X"):
		digits, base = digits[2:], 16
	case len(digits) > 1 && digits[0] == '0':
		digits, base = digits[1:], 8
	}
	n, err := strconv.ParseUint(digits, base, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (n > math.MaxUint64/factor || n*factor > maximum):
		return 0, fmt.Errorf("larger than %d", maximum)
	case err != nil && strings.HasPrefix(digits, "-") && strings.Trim(digits[1:], "0123456789") == "":
		return 0, fmt.Errorf("below 0 (want 0 to %d, or INFINITE)", maximum)
	case err != nil:
		return 0, errors.New("not a number (want 0 or more, or INFINITE)")
	}
	return n * factor, nil
}

// ParseBool reads a flag as Slurm's s_p_handle_boolean does.
func ParseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "yes", "up", "true", "1":
		return true, nil
	case "no", "down", "false", "0":
		return false, nil
	}
	return false, errors.New("not a flag (want YES or NO)")
}

// ParseCount reads a count with a suffix as Slurm's suffix_mult does. The suffixes k, m, g, t, p
// and their "ib" forms are powers of 1024. "kb" and so on are powers of 1000.
func ParseCount(s string) (int64, error) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(s[:i], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: not a count (want 4 or 16G)", s)
	}
	suffix := strings.ToLower(s[i:])
	if suffix == "" {
		return n, nil
	}
	base := int64(1024)
	if len(suffix) == 2 && suffix[1] == 'b' {
		base, suffix = 1000, suffix[:1]
	}
	power := strings.Index("kmgtp", strings.TrimSuffix(suffix, "ib")) + 1
	if power == 0 || len(strings.TrimSuffix(suffix, "ib")) != 1 {
		return 0, fmt.Errorf("%q: not a count (want 4 or 16G)", s)
	}
	for range power {
		if n > math.MaxInt64/base {
			return 0, fmt.Errorf("%q: too large", s)
		}
		n *= base
	}
	return n, nil
}

// List splits a comma list and leaves out empty entries.
func List(s string) []string {
	var list []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
