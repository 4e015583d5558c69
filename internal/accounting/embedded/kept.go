package embedded

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"rmreplay/internal/accounting/store"
)

// Limits of the memory of [kept], in bytes.
const (
	maxKept       = 32 << 20
	maxKeptAnswer = 1 << 20 // maximum for one answer
)

// kept caches the rows of statements until the jobs change: many readers view the same page, and
// pages reload themselves.
type kept struct {
	mu      sync.Mutex
	content store.Content
	bytes   int
	rows    map[[sha256.Size]byte][][]any
}

// key identifies a statement with its arguments.
func (p part) key() [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "%q%q", p.text, p.args)) }

// get returns a copy of the rows of a statement, if they were stored for the same content of the
// store.
func (k *kept) get(content store.Content, key [sha256.Size]byte) ([][]any, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	rows, ok := k.rows[key]
	if !ok || k.content != content {
		return nil, false
	}
	return clone(rows), true
}

// put stores a copy of rows, unless they need more than maxKeptAnswer bytes.
func (k *kept) put(content store.Content, key [sha256.Size]byte, rows [][]any) {
	size := sizeOf(rows)
	if size > maxKeptAnswer {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == nil || k.content != content || k.bytes+size > maxKept {
		k.rows, k.content, k.bytes = make(map[[sha256.Size]byte][][]any), content, 0
	}
	if _, known := k.rows[key]; !known {
		k.rows[key], k.bytes = clone(rows), k.bytes+size
	}
}

// sizeOf estimates how many bytes of memory rows need.
func sizeOf(rows [][]any) int {
	size := 200 // the entry itself
	for _, row := range rows {
		size += 24 + 32*len(row)
		for _, v := range row {
			if text, ok := v.(string); ok {
				size += len(text)
			}
		}
	}
	return size
}

// clone copies rows, because panels modify them.
func clone(rows [][]any) [][]any {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
	}
	return out
}
