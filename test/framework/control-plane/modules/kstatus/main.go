// Command kstatus reads a Kubernetes object from its standard input, and prints what the library kstatus (Flux and others) and
// the Lua health check (Argo CD) in the file of its argument make of it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type health struct {
	Kstatus        string `json:"kstatus"`
	KstatusMessage string `json:"kstatusMessage"`
	Argo           string `json:"argo"`
	ArgoMessage    string `json:"argoMessage"`
}

func main() {
	found, err := run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() (health, error) {
	object := &unstructured.Unstructured{}
	if err := json.NewDecoder(os.Stdin).Decode(object); err != nil {
		return health{}, err
	}
	result, err := status.Compute(object)
	if err != nil {
		return health{}, err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	lua.OpenBase(state)
	state.SetGlobal("obj", tableOf(state, object.Object))
	if err := state.DoFile(os.Args[1]); err != nil {
		return health{}, err
	}
	found, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return health{}, fmt.Errorf("the script returns no table")
	}
	return health{string(result.Status), result.Message, found.RawGetString("status").String(), found.RawGetString("message").String()}, nil
}

func tableOf(state *lua.LState, value any) lua.LValue {
	switch typed := value.(type) {
	case bool:
		return lua.LBool(typed)
	case string:
		return lua.LString(typed)
	case int64:
		return lua.LNumber(typed)
	case float64:
		return lua.LNumber(typed)
	case []any:
		table := state.NewTable()
		for _, one := range typed {
			table.Append(tableOf(state, one))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, one := range typed {
			table.RawSetString(key, tableOf(state, one))
		}
		return table
	}
	return lua.LNil
}
