package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"rmreplay/internal/accounting/columnar"
	"slices"
	"sync"
)

// key identifies a run of a job. It is the first half of the SHA-256 of cluster, number and run.
// So nobody can make two runs with the same key, even on purpose.
type key [16]byte

func keyOf(cluster string, jobID, run int64) key {
	text := make([]byte, 16, 64)
	binary.LittleEndian.PutUint64(text, uint64(jobID))
	binary.LittleEndian.PutUint64(text[8:], uint64(run))
	sum := sha256.Sum256(append(text, cluster...))
	return key(sum[:16])
}

// standing describes the document that is stored for a key.
type standing struct {
	seq    int64
	digest uint64 // digest of the document
	traits traits
}

// traits are the facts about a document that decide whether a later document replaces it.
type traits uint8

const (
	ended   traits = 1 << 6 // the document describes the end of a job
	waiting traits = 1 << 7 // the document describes a job that had not started
	origin  traits = 0x0f   // mask of the source's index in sources
)

// sources lists all sources. Files contain the indices, so the order must not change.
var sources = []Source{Received, Kafka, Imported, Reconciled, FromRun}

func (t traits) source() Source { return sources[int(t&origin)%len(sources)] }

func traitsOf(e *Entry) traits {
	t := traits(max(0, slices.Index(sources, e.Source)))
	if e.Job.Finished() {
		t |= ended
	}
	if e.Job.State == "PENDING" && e.Job.Start.IsZero() && e.Job.End.IsZero() {
		t |= waiting
	}
	return t
}

func digest(document []byte) uint64 {
	sum := sha256.Sum256(document)
	return binary.LittleEndian.Uint64(sum[:])
}

// A file of keys contains the keys of a part's rows in ascending order, with the standing of each row.
// Its parts are: a header (magic, number of rows, number of the first row), the words of a Bloom
// filter, the keys (16 bytes each), the rows' numbers minus the number of the first row (4 bytes each),
// the digests (8), the traits (1), and the CRC-32C of all preceding bytes. Integers are little-endian.
const (
	keysMagic  = "rmrkeys1"
	keysHeader = len(keysMagic) + 16
	keyRow     = 16 + 4 + 8 + 1
	bloomBits  = 10 // per row; the filter finds one of 120 absent keys by mistake
	bloomTries = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type keyed struct {
	key key
	standing
}

// writeKeys sorts the rows by key and writes a file of keys.
func writeKeys(path string, first int64, rows []keyed) (out columnar.Sealed, err error) {
	slices.SortFunc(rows, func(a, b keyed) int { return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.seq, b.seq)) })
	filter := make(bloom, (len(rows)*bloomBits+63)/64)
	for i := range rows {
		filter.add(rows[i].key)
	}
	text := make([]byte, 0, keysHeader+8*len(filter)+keyRow*len(rows)+4)
	text = append(text, keysMagic...)
	text = binary.LittleEndian.AppendUint64(text, uint64(len(rows)))
	text = binary.LittleEndian.AppendUint64(text, uint64(first))
	for _, word := range filter {
		text = binary.LittleEndian.AppendUint64(text, word)
	}
	for i := range rows {
		text = append(text, rows[i].key[:]...)
	}
	for i := range rows {
		text = binary.LittleEndian.AppendUint32(text, uint32(rows[i].seq-first))
	}
	for i := range rows {
		text = binary.LittleEndian.AppendUint64(text, rows[i].digest)
	}
	for i := range rows {
		text = append(text, byte(rows[i].traits))
	}
	text = binary.LittleEndian.AppendUint32(text, crc32.Checksum(text, castagnoli))
	if err := columnar.WriteDurable(path, text); err != nil {
		return out, err
	}
	sum := sha256.Sum256(text)
	return columnar.Sealed{Bytes: int64(len(text)), Sum: hex.EncodeToString(sum[:])}, nil
}

// keyTable is a file of keys, loaded into memory.
type keyTable struct {
	first                         int64
	keys, offsets, sums, features []byte
}

// readBloom reads only the Bloom filter of a file of keys.
func readBloom(path string) (bloom, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the file was only read
	head := make([]byte, keysHeader)
	if _, err := f.ReadAt(head, 0); err != nil || string(head[:len(keysMagic)]) != keysMagic {
		return nil, fmt.Errorf("reading %s: not a file of keys", path)
	}
	rows := binary.LittleEndian.Uint64(head[len(keysMagic):])
	if rows > 1<<32 {
		return nil, fmt.Errorf("reading %s: not a file of keys", path)
	}
	text := make([]byte, 8*((rows*bloomBits+63)/64))
	if _, err := f.ReadAt(text, int64(keysHeader)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	filter := make(bloom, len(text)/8)
	for i := range filter {
		filter[i] = binary.LittleEndian.Uint64(text[8*i:])
	}
	return filter, nil
}

// readKeys reads a file of keys and checks its checksum.
func readKeys(path string) (*keyTable, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fault := fmt.Errorf("reading %s: the file is damaged", path)
	if len(text) < keysHeader+4 || string(text[:len(keysMagic)]) != keysMagic {
		return nil, fault
	}
	body, sum := text[:len(text)-4], binary.LittleEndian.Uint32(text[len(text)-4:])
	rows := int(binary.LittleEndian.Uint64(body[len(keysMagic):]))
	if sum != crc32.Checksum(body, castagnoli) || rows < 0 || len(body) != keysHeader+8*((rows*bloomBits+63)/64)+keyRow*rows {
		return nil, fault
	}
	t := &keyTable{first: int64(binary.LittleEndian.Uint64(body[len(keysMagic)+8:]))}
	body = body[keysHeader+8*((rows*bloomBits+63)/64):]
	t.keys, body = body[:16*rows], body[16*rows:]
	t.offsets, body = body[:4*rows], body[4*rows:]
	t.sums, t.features = body[:8*rows], body[8*rows:]
	return t, nil
}

func (t *keyTable) len() int { return len(t.features) }

func (t *keyTable) at(i int) keyed {
	return keyed{key(t.keys[16*i : 16*i+16]), standing{
		t.first + int64(binary.LittleEndian.Uint32(t.offsets[4*i:])), binary.LittleEndian.Uint64(t.sums[8*i:]), traits(t.features[i]),
	}}
}

// find calls the function each with all rows of a key. At most one of them has not been replaced.
func (t *keyTable) find(k key, each func(s standing)) {
	from, to := 0, t.len()
	for from < to {
		middle := (from + to) / 2
		if bytes.Compare(t.keys[16*middle:16*middle+16], k[:]) < 0 {
			from = middle + 1
		} else {
			to = middle
		}
	}
	for ; from < t.len() && bytes.Equal(t.keys[16*from:16*from+16], k[:]); from++ {
		each(t.at(from).standing)
	}
}

// bloom is a Bloom filter of keys.
type bloom []uint64

func (b bloom) add(k key) {
	b.probe(k, func(word *uint64, bit uint64) bool { *word |= bit; return true })
}

// has reports whether k may be in the set. If it returns false, k is not in the set.
func (b bloom) has(k key) bool {
	return b.probe(k, func(word *uint64, bit uint64) bool { return *word&bit != 0 })
}

func (b bloom) probe(k key, do func(word *uint64, bit uint64) bool) bool {
	if len(b) == 0 {
		return false
	}
	one, two := binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:])|1
	for i := range uint64(bloomTries) {
		n, _ := bits.Mul64(one+i*two, uint64(64*len(b)))
		if !do(&b[n/64], 1<<(n%64)) {
			return false
		}
	}
	return true
}

// keyCache keeps the most recently used files of keys in memory.
type keyCache struct {
	mu   sync.Mutex
	list []cachedKeys // the most recently used file is the first
}

type cachedKeys struct {
	path  string
	table *keyTable
}

// maxCachedKeys is the highest number of files of keys in memory. Each takes 3.5 MB.
const maxCachedKeys = 8

func (c *keyCache) get(path string) (*keyTable, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(k cachedKeys) bool { return k.path == path })
	if i < 0 {
		table, err := readKeys(path)
		if err != nil {
			return nil, err
		}
		c.list = append(c.list[:min(len(c.list), maxCachedKeys-1)], cachedKeys{path, table})
		i = len(c.list) - 1
	}
	used := c.list[i]
	copy(c.list[1:i+1], c.list[:i])
	c.list[0] = used
	return used.table, nil
}
