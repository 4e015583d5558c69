// Package schemas has descriptions of interfaces that programs serve.
package schemas

import _ "embed" // a file becomes a variable

// Accounting describes the paths of accounting serve (OpenAPI 3.1).
//
//go:embed accounting.openapi.json
var Accounting []byte

// Forecast describes the paths of forecast serve (OpenAPI 3.1).
//
//go:embed forecast.openapi.json
var Forecast []byte
