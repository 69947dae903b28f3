//go:build tools

// Package tools names the program to build, so that go.mod and go.sum pin all that it is made of.
package tools

import (
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
