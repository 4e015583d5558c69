package sbatch

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// parseCount reads a whole number that is at least minimum.
func parseCount(s string, minimum int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n > math.MaxInt32 {
		return 0, errors.New("not a whole number")
	}
	if n < minimum {
		return 0, fmt.Errorf("too small (want at least %d)", minimum)
	}
	return n, nil
}

// parseMemory reads a size in MiB, or with a suffix K, M, G or T (and perhaps a B).
func parseMemory(s string) (int64, error) {
	bad := errors.New("not a memory size (want MiB, or a number with K, M, G or T)")
	digits := strings.TrimRight(s, "KkMmGgTtBb")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<40 || digits[0] == '+' {
		return 0, bad
	}
	switch strings.ToUpper(s[len(digits):]) {
	case "", "M", "MB":
		return n, nil
	case "K", "KB":
		return (n + 1023) / 1024, nil
	case "G", "GB":
		return n << 10, nil
	case "T", "TB":
		return n << 20, nil
	}
	return 0, bad
}

// parseNodes reads a number of nodes, or a range such as "2-4". k means 1024 and m 1024².
func parseNodes(s string) (minNodes, maxNodes int, err error) {
	low, high, isRange := strings.Cut(s, "-")
	if minNodes, err = parseNodeCount(low); err != nil {
		return 0, 0, err
	}
	maxNodes = minNodes
	if isRange {
		if maxNodes, err = parseNodeCount(high); err != nil {
			return 0, 0, err
		}
	}
	if maxNodes != 0 && maxNodes < minNodes {
		return 0, 0, fmt.Errorf("the maximum of %d is below the minimum of %d", maxNodes, minNodes)
	}
	return minNodes, maxNodes, nil
}

func parseNodeCount(s string) (int, error) {
	s = strings.TrimSpace(s)
	factor := 1
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k', 'K':
			factor, s = 1024, s[:n-1]
		case 'm', 'M':
			factor, s = 1024*1024, s[:n-1]
		}
	}
	n, err := parseCount(s, 0)
	if err != nil || n > math.MaxInt32/factor {
		return 0, errors.New("not a number of nodes (want N or MIN-MAX)")
	}
	return n * factor, nil
}

// parseGeometry reads one number of -B. The number is the smallest count. A maximum count after it is ignored, and "*"
// means any count (0).
func parseGeometry(s string) (int, error) {
	if s == "" || s[0] == '*' {
		return 0, nil
	}
	low, high, isRange := strings.Cut(s, "-")
	n, err := parseNodeCount(low)
	if err == nil && isRange {
		_, err = parseNodeCount(high)
	}
	if err != nil {
		return 0, errors.New("not a node's geometry (want SOCKETS[:CORES[:THREADS]])")
	}
	return n, nil
}

var signalSyntax = regexp.MustCompile(
	`(?i)^[RB]{0,2}:?(?:[0-9]+|(?:SIG)?(?:HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU|XCPU))(@[0-9]{1,5})?$`)

func checkSignal(s string) error {
	m := signalSyntax.FindStringSubmatch(s)
	if m == nil {
		return errors.New("not a signal (want [R][B:]SIGNAL[@SECONDS])")
	}
	if m[1] != "" {
		if n, err := strconv.Atoi(m[1][1:]); err != nil || n > math.MaxUint16 {
			return errors.New("more than 65535 seconds before the end")
		}
	}
	return nil
}

var distributionSyntax = regexp.MustCompile(
	`(?i)^(plane=[1-9][0-9]{0,8}|arbitrary|hostfile|(\*|block|cyclic)(:(\*|block|cyclic|fcyclic)){0,2}(,(no)?pack)?|(no)?pack)$`)

func checkDistribution(s string) error {
	if !distributionSyntax.MatchString(s) {
		return errors.New("not a distribution (want block, cyclic, arbitrary, plane=N or block:cyclic:cyclic)")
	}
	return nil
}

// gpuSyntax is a comma list of counts, each perhaps with a type: "8", "a100:8".
var gpuSyntax = regexp.MustCompile(`^([A-Za-z][^,:\s]*:)?[0-9]+[kKmM]?(,([A-Za-z][^,:\s]*:)?[0-9]+[kKmM]?)*$`)

func checkGPUs(s string) error {
	if !gpuSyntax.MatchString(s) {
		return errors.New("not a number of GPUs (want N or TYPE:N)")
	}
	return nil
}

// gresSyntax is a comma list of name[:type][:count].
var gresSyntax = regexp.MustCompile(`^[A-Za-z][^,:\s]*(:[^,:\s]+){0,2}(,[A-Za-z][^,:\s]*(:[^,:\s]+){0,2})*$`)

func checkGRES(s string) error {
	if strings.EqualFold(s, "help") || strings.EqualFold(s, "list") ||
		!gresSyntax.MatchString(strings.ReplaceAll(s, "gres:", "")) {
		return errors.New("not a list of generic resources (want NAME[:TYPE][:COUNT],...)")
	}
	return nil
}
