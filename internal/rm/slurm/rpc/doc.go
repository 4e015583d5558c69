// Package rpc speaks the wire protocol between slurmctld, its compute nodes and
// its clients: bytes in, bytes out, no sockets and no clocks. Whoever owns the
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
// Protocol 38<<8 (Slurm 22.05) is spoken in full. slurmctld talks to a node that
// has not registered since it started in the oldest protocol it supports, and a
// reply must be in the version of its request, so what slurmctld can send to a node
// is also decoded, and every answer also encoded, for 21.08 and 20.11.
//
// # Hostile input
//
// Decoders check every length against what is there before they allocate, return
// errors that name the message and the field, and never panic. Bytes that are left
// over after a body's last field are an error too: they mean that the fields were
// read wrongly.
package rpc
