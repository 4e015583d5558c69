package install

import (
	"net"
	"testing"
)

// The C library finds IPv4 addresses only if an interface has an address other than 127.0.0.1.
func TestFindsAddresses(t *testing.T) {
	parse := func(texts ...string) (list []net.Addr) {
		for _, text := range texts {
			ip, network, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		return list
	}
	for _, tt := range []struct {
		addresses []net.Addr
		want      bool
	}{
		{nil, false},
		{parse("127.0.0.1/8", "::1/128"), false},
		{parse("127.0.0.1/8", "fe80::1/64"), false},
		{parse("127.0.0.1/8", "127.0.0.2/8"), true},
		{parse("127.0.0.1/8", "10.1.2.3/24"), true},
	} {
		if got := findsAddresses(tt.addresses); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.addresses, got, tt.want)
		}
	}
}
