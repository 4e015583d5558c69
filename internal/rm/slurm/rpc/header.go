package rpc

import "fmt"

// Flags of a message that change its layout (slurm_protocol_common.h).
const (
	flagNoCredential = uint16(1 << 6) // SLURM_NO_AUTH_CRED: the message has no credential
	flagAddresses    = uint16(1 << 7) // SLURM_PACK_ADDRS: the header has Forward.Addresses
)

// headerFields are the fields of a header that only some versions have.
type headerFields struct {
	messageIndex bool
	noCredential bool // the version has flagNoCredential
	addresses    bool // the version has flagAddresses
	treeDepth    bool
}

// append appends a header and the credential, from the flags on.
func (f headerFields) append(e *encoder, m *Message) {
	e.U16(m.Flags)
	if f.messageIndex {
		e.U16(0)
	}
	e.U16(uint16(m.Type))
	e.U32(uint32(len(m.Body)))
	e.U16(m.Forward.Count)
	if m.Forward.Count > 0 {
		e.Str(m.Forward.Nodes)
		e.U32(m.Forward.Timeout)
		e.U16(m.Forward.TreeWidth)
		if f.addresses && m.Flags&flagAddresses != 0 {
			e.Str(m.Forward.Addresses)
		}
		if f.treeDepth {
			e.U16(m.Forward.TreeDepth)
		}
	}
	e.returns(m.Returns)
	e.U16(0) // original sender's address: none
	if !f.noCredential || m.Flags&flagNoCredential == 0 {
		e.sender(m)
	}
}

// read reads a header and the credential, from the flags on.
func (f headerFields) read(d *decoder, m *Message) (bodyLength uint32) {
	m.Flags = d.U16("flags")
	if f.messageIndex {
		d.U16("message index")
	}
	bodyLength = d.typeAndLength(m)
	m.Forward.Count = d.U16("forward count")
	if m.Forward.Count > 0 {
		m.Forward.Nodes = d.Str("forward nodes")
		m.Forward.Timeout = d.U32("forward timeout")
		m.Forward.TreeWidth = d.U16("forward tree width")
		if f.addresses && m.Flags&flagAddresses != 0 {
			m.Forward.Addresses = d.Str("forward addresses")
		}
		if f.treeDepth {
			m.Forward.TreeDepth = d.U16("forward tree depth")
		}
	}
	m.Returns = d.returns()
	d.skipAddress()
	if !f.noCredential || m.Flags&flagNoCredential == 0 {
		d.sender(m)
	}
	return bodyLength
}

// typeAndLength reads a message's type, which later errors quote, and the length of its body.
func (d *decoder) typeAndLength(m *Message) (bodyLength uint32) {
	m.Type = Type(d.U16("type"))
	if d.Err() == nil {
		d.What = fmt.Sprintf("the header of %v", m.Type)
	}
	return d.U32("body length")
}

// sender appends the credential of auth/none.
func (e *encoder) sender(m *Message) {
	e.U32(authNone)
	e.U32(m.UID)
	e.U32(m.GID)
	e.Str(m.Host)
}

// sender reads the credential, which must be of auth/none.
func (d *decoder) sender(m *Message) {
	if id := d.U32("credential plugin"); d.Err() == nil && id != authNone {
		d.Fail("the credential is of plugin %d (want %d, auth/none)", id, authNone)
	}
	m.UID = d.U32("credential uid")
	m.GID = d.U32("credential gid")
	m.Host = d.Str("credential host")
}

// returns appends a return list.
func (e *encoder) returns(list []Return) {
	e.U16(uint16(len(list)))
	for _, r := range list {
		e.U32(r.Err)
		e.U16(uint16(r.Type))
		e.Str(r.Node)
		e.Bytes = append(e.Bytes, r.Body...)
	}
}

// returns reads a return list. The bodies in the list carry no length, so the decoder can read
// only answers whose type has a known layout.
func (d *decoder) returns() []Return {
	n := int(d.U16("return count"))
	var a []Return
	for i := 0; i < n && d.Err() == nil; i++ {
		r := Return{
			Err:  d.U32("return error"),
			Type: Type(d.U16("return type")),
			Node: d.Str("return node"),
		}
		switch r.Type {
		case 0, ForwardFailed:
		case ResponseRC, ResponsePrologExecuting:
			r.Body = d.Take(4, "return body")
		case ResponsePing:
			r.Body = d.Taken(func() { d.protocol.skipPing(d) })
		default:
			d.Fail("a return of type %v cannot be read in %v", r.Type, d.protocol.version)
		}
		a = append(a, r)
	}
	return a
}

// skipAddress skips the original sender's address.
func (d *decoder) skipAddress() {
	const inet, inet6 = 2, 10
	switch d.U16("address family") {
	case inet:
		d.Take(6, "address")
	case inet6:
		d.Mem("address")
		d.U16("address port")
	}
}
