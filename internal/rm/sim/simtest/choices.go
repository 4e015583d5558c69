// Package simtest makes random machines and workloads for tests of the simulator, from a seed or from the bytes of a
// fuzz test.
package simtest

import (
	"math/rand/v2"
	"time"
)

// Choices are the random decisions of a case.
type Choices struct {
	rng   *rand.Rand
	bytes []byte
}

// Seeded returns the choices of a seed.
func Seeded(seed uint64) *Choices { return &Choices{rng: rand.New(rand.NewPCG(seed, 0))} }

// FromBytes returns choices that the bytes decide. When the bytes are used up, every choice is the first possible
// one.
func FromBytes(bytes []byte) *Choices { return &Choices{bytes: bytes} }

// number returns a number below n.
func (c *Choices) number(n int) int {
	switch {
	case c.rng != nil:
		return c.rng.IntN(n)
	case len(c.bytes) == 0:
		return 0
	case n > 256 && len(c.bytes) > 1:
		v := int(c.bytes[0])<<8 | int(c.bytes[1])
		c.bytes = c.bytes[2:]
		return v % n
	}
	v := int(c.bytes[0])
	c.bytes = c.bytes[1:]
	return v % n
}

// between returns a number from lowest to highest.
func (c *Choices) between(lowest, highest int) int { return lowest + c.number(highest-lowest+1) }

// one returns true with probability 1/n.
func (c *Choices) one(n int) bool { return c.number(n) == n-1 }

// seconds returns a duration from lowest to highest seconds.
func (c *Choices) seconds(lowest, highest int) time.Duration {
	return time.Duration(c.between(lowest, highest)) * time.Second
}

// pick returns an element of a list.
func pick[T any](c *Choices, list ...T) T { return list[c.number(len(list))] }
