// Package amount computes with the amounts of resources that jobs ask for.
package amount

import "math"

// Most is the largest amount that a job can ask for. A sum of a few amounts up to Most does not overflow.
const Most = math.MaxInt64 / 8

// Product multiplies two parts of a demand. A part below 1 counts as 1. The result is at most Most.
func Product(a, b int64) int64 {
	a, b = min(max(a, 1), Most), min(max(b, 1), Most)
	if a > Most/b {
		return Most
	}
	return a * b
}

// PerGPU multiplies an amount for each GPU by a number of GPUs, which may be 0.
func PerGPU(amount, gpus int64) int64 {
	if gpus <= 0 {
		return 0
	}
	return Product(amount, gpus)
}

// MinPositive returns the smaller of two limits; 0 means no limit.
func MinPositive(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
