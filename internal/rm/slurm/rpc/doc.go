// Package rpc speaks the wire protocol between slurmctld, its compute nodes and
// its clients: bytes in, bytes out, no sockets and no clocks. The owner of the
// connections decides when a message is sent and how long to wait for one.
//
// # Messages
//
// A message on the wire is a length (u32, not counting itself), a header, an
// authentication credential and a body:
//
//	header      u16 version, u16 flags, [u16 0 before 22.05], u16 type, u32 body length,
//	            u16 forwards [str nodes, u32 timeout ms, u16 tree width],
//	            u16 returns [u32 error, u16 type, str node, body]...,
//	            u16 address family [address]
//	credential  u32 plugin (100 = auth/none), u32 uid, u32 gid, str host
//	body        as the type says
//
// Everything is big-endian. A string is a u32 length that counts the closing NUL,
// then the bytes; length 0 is C's NULL, which this package reads and writes as the
// empty string. An instant is an i64 of seconds since the Unix epoch.
//
// [Message] is header, credential and body together: [Split] cuts one out of a
// stream, [Decode] reads it, [Message.Append] writes it. The bodies have a type
// each: those that slurmctld sends to a node are decoded with Decode functions
// ([DecodeBatchLaunch], [DecodeKillJob], ...), those that nodes and clients send are
// encoded with an Append method. The credential is that of auth/none, so a sender
// says who it is and is believed; that is what makes a replay possible without
// privileges, and why the daemon must listen on loopback only.
//
// # Versions
//
// A [Codec] is made from a release and writes what the driver, the nodes and the clients say
// to that release's daemons. How a version of the protocol lays out its messages is a table in
// a file of its own (protocol_22_05.go). To add a release, add its protocol's file, with
// functions for the messages that differ, list it in protocol.go, and mark the release as
// supported in package slurmspec.
//
// slurmctld talks to a node that has not registered since it started in the oldest version
// that it accepts, and an answer must be in the version of its request. So a message that was
// read decides by its own version: what slurmctld 22.05 can send to a node is also read, and
// every answer also written, for 21.08 and 20.11.
//
// # Hostile input
//
// Decoders check every length against what is there before they allocate, return
// errors that name the message and the field, and never panic. Bytes that are left
// over after a body's last field are an error too: they mean that the fields were
// read wrongly.
package rpc
