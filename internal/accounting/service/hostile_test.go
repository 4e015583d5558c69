package service_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/accounting/store/storetest"
)

// certify writes a self-signed certificate for 127.0.0.1, and returns a pool with which clients
// trust it.
func certify(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rmreplay test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(text)
	for path, text := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// TestHostile sends documents over TLS with a password while hostile clients occupy connections:
// 1,000 idle connections, handshakes that never end, requests and bodies that arrive byte by byte,
// responses that nobody reads, a body that is too long, and a body that is too long after
// decompression. All documents must be acknowledged.
func TestHostile(t *testing.T) {
	scratch := t.TempDir()
	cert, key, auth, dir := filepath.Join(scratch, "cert"), filepath.Join(scratch, "key"), filepath.Join(scratch, "auth"), filepath.Join(scratch, "data")
	pool := certify(t, cert, key)
	if err := os.WriteFile(auth, []byte("ingest slurm secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- service.New().Serve(ctx, service.Serve{Data: dir, Listen: []string{address}, Auth: auth, TLSCert: cert, TLSKey: key}, func(string, ...any) {})
	}()
	config := &tls.Config{RootCAs: pool}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	send := func(path, password string, body io.Reader, header ...string) (int, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+path, body)
		if err != nil {
			return 0, err
		}
		request.SetBasicAuth("slurm", password)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, err
	}
	document := func(n int) io.Reader { return bytes.NewReader(storetest.Entry(int64(n)).Document) }
	for range 600 {
		if status, err := send("/slurm/_doc", "secret", document(1)); err == nil && status == http.StatusCreated {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}

	var group sync.WaitGroup // the hostile clients
	plain := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	secure := func() net.Conn {
		conn := tls.Client(plain(), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	drip := func(conn net.Conn, text string) {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
					return // the server has closed the connection
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	const basic = "POST /slurm/_doc HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2x1cm06c2VjcmV0\r\n"
	for i := range 1000 {
		switch {
		case i < 500:
			plain() // without a handshake
		case i < 700:
			if _, err := plain().Write([]byte{22, 3, 1, 2, 0, 1}); err != nil { // the beginning of a handshake
				t.Fatal(err)
			}
		case i < 960:
			secure() // without a request
		case i < 980:
			drip(secure(), basic) // a header that never ends
		case i < 990:
			conn := secure() // needs a turn, and never ends
			if _, err := fmt.Fprintf(conn, "%sContent-Length: 100000000\r\n\r\n%s", basic, strings.Repeat(" ", 1<<20+1)); err != nil {
				t.Fatal(err)
			}
			drip(conn, " ")
		default:
			// The client does not read the responses.
			if _, err := fmt.Fprint(secure(), strings.Repeat("GET /nothing HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2x1cm06c2VjcmV0\r\n\r\n", 200)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var bomb bytes.Buffer
	deflate := gzip.NewWriter(&bomb)
	for range 200 {
		if _, err := deflate.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := deflate.Close(); err != nil {
		t.Fatal(err)
	}
	group.Go(func() {
		if status, err := send("/slurm/_doc", "secret", &bomb, "Content-Encoding", "gzip"); err != nil || status != http.StatusRequestEntityTooLarge {
			t.Errorf("a body that inflates to 200 MiB: %d %v", status, err)
		}
	})
	group.Go(func() {
		// The server responds before it has read everything. The client may get the response or an
		// error.
		if status, err := send("/slurm/_doc", "secret", io.LimitReader(zeros{}, 140<<20)); err == nil && status != http.StatusRequestEntityTooLarge {
			t.Errorf("a body of 140 MiB: %d", status)
		}
	})

	acknowledged := 1
	for n := 2; n <= 100; n++ {
		if status, err := send("/slurm/_doc", "secret", document(n)); err != nil || status != http.StatusCreated {
			t.Errorf("document %d: %d %v", n, status, err)
		} else {
			acknowledged++
		}
	}
	var bulk bytes.Buffer // so large that it needs a turn
	for n := 101; n <= 2100; n++ {
		fmt.Fprintf(&bulk, "{\"index\":{}}\n%s\n", storetest.Entry(int64(n)).Document)
	}
	if status, err := send("/slurm/_bulk", "secret", &bulk); err != nil || status != http.StatusOK {
		t.Errorf("bulk: %d %v", status, err)
	} else {
		acknowledged += 2000
	}
	if status, err := send("/slurm/_doc", "wrong", document(1)); err != nil || status != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d %v", status, err)
	}
	if _, err := http.Get("https://" + address + "/"); err == nil {
		t.Error("a client that does not trust the certificate was answered")
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	group.Wait()
	if acknowledged != 2100 {
		t.Errorf("%d documents were acknowledged", acknowledged)
	}
	info, err := service.New().Info(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	waitApplied(t, dir, info.Received)
	checkJobs(t, dir, 2100, synthetic)
}
