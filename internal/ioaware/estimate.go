package ioaware

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
)

// Estimator predicts the I/O and the run time of jobs. [ParseEstimator] returns one by name.
type Estimator interface {
	// Estimate predicts a task of a job array on a file system. For a job that is not an array, task
	// is -1.
	Estimate(job *hpc.Job, task int, f *hpc.FileSystem) Estimate
}

// Nothing is an estimator that predicts nothing, so that only requested licenses count.
type Nothing struct{}

// Estimate implements [Estimator].
func (Nothing) Estimate(*hpc.Job, int, *hpc.FileSystem) Estimate { return Estimate{} }

// Behaviour predicts from the job's own given behaviour: its mean rate, and its run time without
// other jobs. On a real site, the services of the workload-adaptive scheduler learn these values
// from earlier jobs of the class.
type Behaviour struct {
	// Factor multiplies the predicted use; 1 for perfect estimates. The predicted run time is
	// always exact.
	Factor float64
	// Sigma is not 0 if each class gets a second, random factor, which is drawn from Seed. The
	// median of this factor is 1, and Sigma is the standard deviation of its logarithm. Jobs with
	// the same name are one class.
	Sigma float64
	Seed  uint64
}

// Estimate implements [Estimator].
func (b Behaviour) Estimate(job *hpc.Job, task int, f *hpc.FileSystem) Estimate {
	run := job.RunTimeOf(task)
	if run == hpc.Unlimited || run <= 0 {
		return Estimate{}
	}
	rate := job.Volume(f.Name, run) / run.Seconds() * b.Factor
	if b.Sigma > 0 {
		h := fnv.New64a()
		h.Write([]byte(job.Name))
		rate *= math.Exp(b.Sigma * rand.New(rand.NewPCG(b.Seed, h.Sum64())).NormFloat64())
	}
	return Estimate{Use: f.LicensesOf(rate), RunTime: run}
}

// ParseEstimator parses the name of an estimator: "perfect", "none", a factor such as "x0.5", or
// "noise=SIGMA" or "noise=SIGMA/SEED".
func ParseEstimator(text string) (Estimator, error) {
	wrong := fmt.Errorf("%q: not an estimate (want perfect, none, a factor such as x0.5, or noise=0.5)", text)
	switch factor, isFactor := strings.CutPrefix(text, "x"); {
	case text == "perfect":
		return Behaviour{Factor: 1}, nil
	case text == "none":
		return Nothing{}, nil
	case isFactor:
		f, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(f > 0) || math.IsInf(f, 0) {
			return nil, wrong
		}
		return Behaviour{Factor: f}, nil
	}
	noise, isNoise := strings.CutPrefix(text, "noise=")
	noise, seed, seeded := strings.Cut(noise, "/")
	sigma, err := strconv.ParseFloat(noise, 64)
	if !isNoise || err != nil || !(sigma > 0) || sigma > 10 {
		return nil, wrong
	}
	b := Behaviour{Factor: 1, Sigma: sigma}
	if seeded {
		if b.Seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return nil, wrong
		}
	}
	return b, nil
}
