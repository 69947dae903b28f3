//go:build tools

// Package tools names the programs to build, so that go.mod and go.sum pin all that they are made of.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
