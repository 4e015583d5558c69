package slurmspec

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
)

// The numbers of the trackable resources that every cluster has (enum tres_types_t in
// slurmdb.h).
const (
	TRESCPU     = 1
	TRESMemory  = 2
	TRESEnergy  = 3
	TRESNode    = 4
	TRESBilling = 5
)

var errTRES = errors.New("not a list of TRES (want cpu=4,mem=8G)")

// TRES yields the name and the amount of each trackable resource in a list such as
// "cpu=4,mem=8G,node=2,gres/gpu=2". It skips empty elements. An element without "=" has an
// empty amount; [CheckTRES] finds such elements.
func TRES(list string) iter.Seq2[string, string] {
	return func(yield func(name, amount string) bool) {
		for item := range strings.SplitSeq(list, ",") {
			if name, amount, _ := strings.Cut(item, "="); item != "" && !yield(name, amount) {
				return
			}
		}
	}
}

// CheckTRES returns an error if a text is not a list of trackable resources.
func CheckTRES(list string) error {
	for item := range strings.SplitSeq(list, ",") {
		if item != "" && !strings.Contains(item, "=") {
			return errTRES
		}
	}
	return nil
}

// GPUs returns the GPUs in a list of trackable resources as sbatch's --gpus takes them: "4", or
// "a100:2,h100:1" if the list names the model of each GPU. It returns "" if the list has no GPUs.
func GPUs(list string) string {
	for name, amount := range GRES(list) {
		if name == "gpu" {
			return amount
		}
	}
	return ""
}

// GRES yields the names of the generic resources in a list of trackable resources, and their amounts in the form of
// sbatch's --gpus: "4", or "a100:2,h100:1" with the types. A list has a total ("gres/gpu=3") beside the amounts of
// types ("gres/gpu:a100=2"). The yielded amount is the total if the total exceeds the sum of the types; otherwise it
// lists the amounts of the types.
func GRES(list string) iter.Seq2[string, string] {
	type resource struct {
		total string
		types []string
		sum   float64
	}
	var names []string
	all := make(map[string]*resource)
	for name, amount := range TRES(list) {
		name, found := strings.CutPrefix(name, "gres/")
		if !found {
			continue
		}
		name, kind, typed := strings.Cut(name, ":")
		r := all[name]
		if r == nil {
			r = new(resource)
			all[name], names = r, append(names, name)
		}
		if !typed {
			r.total = amount
			continue
		}
		n, err := ParseScaled(amount)
		if err != nil {
			n = math.Inf(1) // keep the wrong amount: the parser of --gpus will report it
		}
		if r.sum += n; n > 0 {
			r.types = append(r.types, kind+":"+amount)
		}
	}
	return func(yield func(name, amount string) bool) {
		for _, name := range names {
			r := all[name]
			amount := strings.Join(r.types, ",")
			if total, err := ParseScaled(r.total); amount == "" || err == nil && total > r.sum {
				amount = r.total
			}
			if !yield(name, amount) {
				return
			}
		}
	}
}

// Licenses returns the licenses in a list of trackable resources as sbatch's --licenses takes them:
// "matlab:1,abaqus@db:5".
func Licenses(list string) string {
	var licenses []string
	for name, amount := range TRES(list) {
		if license, found := strings.CutPrefix(name, "license/"); found {
			licenses = append(licenses, license+":"+amount)
		}
	}
	return strings.Join(licenses, ",")
}

// TRESList writes trackable resources as Slurm does; [TRES] reads them.
type TRESList struct{ b strings.Builder }

// AddRecorded adds a resource with the amount that slurmdbd stores, which is in MiB for
// memory.
func (l *TRESList) AddRecorded(name string, amount int64) {
	unit := ""
	if name == "mem" {
		unit = "M"
	}
	l.Add(name, amount, unit)
}

// Add adds a resource. unit follows the amount and may be empty.
func (l *TRESList) Add(name string, amount int64, unit string) {
	if l.b.Len() > 0 {
		l.b.WriteByte(',')
	}
	l.b.WriteString(name)
	l.b.WriteByte('=')
	l.b.WriteString(strconv.FormatInt(amount, 10))
	l.b.WriteString(unit)
}

// String returns the list: "cpu=4,mem=8192M".
func (l *TRESList) String() string { return l.b.String() }

var errNumber = errors.New("not a number")

// ParseScaled reads a number that is not negative. A K, M, G, T or P after it multiplies it by a power of 1024.
func ParseScaled(text string) (float64, error) {
	factor := 1.0
	if text != "" {
		if at := strings.IndexByte("KMGTP", text[len(text)-1]); at >= 0 {
			factor = float64(int64(1) << (10 * (at + 1)))
			text = text[:len(text)-1]
		}
	}
	if n, err := strconv.ParseUint(text, 10, 53); err == nil { // exact, and most amounts are whole
		return float64(n) * factor, nil
	}
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, errNumber
	}
	f, err := strconv.ParseFloat(text, 64)
	return f * factor, err
}

// maxMemory is the largest amount of memory that is accepted, in MiB.
const maxMemory = 1 << 40

// ParseMemory reads an amount of memory as sacct prints it ("500M", "2.5G") and returns MiB,
// rounded up. A number alone is MiB.
func ParseMemory(text string) (int64, error) {
	if text != "" && strings.IndexByte("KMGTP", text[len(text)-1]) < 0 {
		text += "M"
	}
	f, err := ParseScaled(text)
	if err != nil || f/(1<<20) > maxMemory {
		return 0, errors.New("not an amount of memory (want 500M)")
	}
	return int64(math.Ceil(f / (1 << 20))), nil
}

// GRESWord reads a word of a request for generic resources: "gres:gpu:a100:2", "gres/gpu:a100=2" or
// "gpu:2". ok is false for a word of another resource.
func GRESWord(word string) (name, typ string, n int64, ok bool) {
	word, given := strings.CutPrefix(strings.Replace(word, "gres/", "gres:", 1), "gres:")
	if word == "" || !given && strings.ContainsAny(word, "=") {
		return "", "", 0, false // "cpu=2" per task
	}
	parts := strings.FieldsFunc(word, func(r rune) bool { return r == ':' || r == '=' })
	if len(parts) == 0 {
		return "", "", 0, false
	}
	n = 1
	if last := parts[len(parts)-1]; len(parts) > 1 && '0' <= last[0] && last[0] <= '9' {
		digits := strings.TrimRight(last, "kKmMgGtTpP")
		count, err := strconv.ParseInt(digits, 10, 40)
		if err != nil {
			return "", "", 0, false
		}
		if digits != last {
			count <<= 10 * (1 + strings.IndexByte("kmgtp", last[len(digits)]|0x20))
		}
		n, parts = count, parts[:len(parts)-1]
	}
	if len(parts) > 1 {
		typ = parts[1]
	}
	return parts[0], typ, n, true
}
