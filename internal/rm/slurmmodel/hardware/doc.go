// Package hardware is what nodes and switches have, and what a job wants of them.
package hardware
