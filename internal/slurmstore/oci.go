package slurmstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"rmreplay/internal/input"
)

// layoutFile exists in every directory with an image in the OCI layout. Source: OCI image
// specification, image-layout.md.
const layoutFile = "oci-layout"

// descriptor refers to a blob. Source: OCI image specification, descriptor.md.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

// document is an index (with manifests) or a manifest (with a configuration and layers).
type document struct {
	Manifests []descriptor `json:"manifests"`
	Config    *descriptor  `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// maxJSON is the highest number of bytes in an index or a manifest. Registries refuse manifests
// above 4 MiB.
const maxJSON = 4 << 20

// fromLayout unpacks the image in an OCI layout, layer by layer from the lowest.
func fromLayout(ctx context.Context, t *tree, dir string, hooks Hooks) error {
	layout := ociLayout{dir}
	manifest, err := layout.manifest(ctx)
	if err != nil {
		return err
	}
	for i, layer := range manifest.Layers {
		hooks.Step(fmt.Sprintf("unpacking layer %d of %d", i+1, len(manifest.Layers)))
		if err := layout.unpack(ctx, t, layer); err != nil {
			return fmt.Errorf("layer %d (%s): %w", i+1, layer.Digest, err)
		}
	}
	return nil
}

type ociLayout struct{ dir string }

// manifest returns the manifest of the only image for this machine.
func (l ociLayout) manifest(ctx context.Context) (*document, error) {
	text, err := input.ReadFile(filepath.Join(l.dir, layoutFile), maxJSON)
	if err != nil {
		return nil, err
	}
	var version struct {
		ImageLayoutVersion string `json:"imageLayoutVersion"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%s: %w", layoutFile, err)
	}
	if !strings.HasPrefix(version.ImageLayoutVersion, "1.") {
		return nil, fmt.Errorf("%s: version %q (want 1.0.0)", layoutFile, version.ImageLayoutVersion)
	}
	name := "index.json"
	if text, err = input.ReadFile(filepath.Join(l.dir, name), maxJSON); err != nil {
		return nil, err
	}
	for range 4 { // an index may refer to another index
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if d.Config != nil {
			return &d, l.checkPlatform(ctx, *d.Config)
		}
		next, err := choose(d.Manifests)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		name = next.Digest
		if text, err = l.read(ctx, *next); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil, errors.New("indexes are nested too deeply (want a manifest)")
}

// choose returns the only manifest, or the only one for this machine.
func choose(list []descriptor) (*descriptor, error) {
	var fits []*descriptor
	for i, d := range list {
		if d.Platform == nil || d.Platform.OS == "linux" && d.Platform.Architecture == runtime.GOARCH {
			fits = append(fits, &list[i])
		}
	}
	if len(fits) != 1 {
		return nil, fmt.Errorf("%d images, %d of them for linux/%s (want one)", len(list), len(fits), runtime.GOARCH)
	}
	return fits[0], nil
}

// checkPlatform returns an error for an image for another kind of machine.
func (l ociLayout) checkPlatform(ctx context.Context, config descriptor) error {
	text, err := l.read(ctx, config)
	if err != nil {
		return fmt.Errorf("%s: %w", config.Digest, err)
	}
	var image struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	if err := json.Unmarshal(text, &image); err != nil {
		return fmt.Errorf("%s: %w", config.Digest, err)
	}
	if image.OS != "linux" || image.Architecture != runtime.GOARCH {
		return fmt.Errorf("an image for %s/%s (want linux/%s)", image.OS, image.Architecture, runtime.GOARCH)
	}
	return nil
}

// read returns the content of a small blob.
func (l ociLayout) read(ctx context.Context, d descriptor) ([]byte, error) {
	if d.Size > maxJSON {
		return nil, fmt.Errorf("%d bytes of JSON (want at most %d)", d.Size, maxJSON)
	}
	f, err := l.open(ctx, d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxJSON))
}

var sha256Digest = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// open verifies the size and the digest of a blob, and opens it.
func (l ociLayout) open(ctx context.Context, d descriptor) (*os.File, error) {
	m := sha256Digest.FindStringSubmatch(d.Digest)
	if m == nil {
		return nil, fmt.Errorf("digest %q (want sha256: and 64 hexadecimal digits)", d.Digest)
	}
	f, err := input.Open(filepath.Join(l.dir, "blobs", "sha256", m[1]))
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.LimitReader(&cancelled{ctx, f}, d.Size+1))
	if err == nil {
		if _, err = f.Seek(0, io.SeekStart); err == nil && n != d.Size {
			err = fmt.Errorf("the blob is not %d bytes long, as its descriptor says", d.Size)
		} else if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != m[1] {
			err = fmt.Errorf("the blob has the digest sha256:%s: it is damaged", got)
		}
	}
	if err != nil {
		_ = f.Close() // the first error is returned
		return nil, err
	}
	return f, nil
}

// unpack unpacks a layer over those below: first it removes files, then it adds files.
func (l ociLayout) unpack(ctx context.Context, t *tree, layer descriptor) error {
	if !strings.Contains(layer.MediaType, ".tar") && !strings.HasSuffix(layer.MediaType, ".diff.tar.gzip") {
		return fmt.Errorf("media type %q (want a tar archive)", layer.MediaType)
	}
	f, err := l.open(ctx, layer)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, pass := range []func(context.Context, io.Reader) error{t.removeWhiteouts, t.unpack} {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := decompressed(ctx, f, func(archive io.Reader) error { return pass(ctx, archive) }); err != nil {
			return err
		}
	}
	return nil
}
