package world

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere are names that no world can show something about, by the reason.
var elsewhere = map[string]string{
	"to open a journal in a directory, or another log":                      `Open OpenContext OpenLog Config.ControlSocket Crash.Reports`,
	"executortest starts and stops an executor itself":                      "Executor.Run Config.OnFatal Config.OnStart Executor.Err",
	"a world has the keys of the executor: see TestLockable_S06_OwnService": `Locks.Service`,
	"the numbers of a world begin at zero, have one TTL, and never run out: see TestLaralocker_A02_StartFrom, TestLaralocker_A05_TTLOfAJob and TestLaralocker_NoFreeSlot": `SlotsConfig.StartFrom
		SlotsConfig.TTLOf SlotsConfig.MaxSteps`,
	"one process has all ticks: see TestScheduler_M01_OneLeaderFires": `cron.Config.Group cron.Config.Member
		cron.NewGroup cron.Cron.Leads cron.Cron.SetLease`,
	"a schedule that is taken out fires no more: see TestRemove": "cron.Cron.Remove",
	"a world ticks each minute: see TestNext":                    "cron.Schedule.Zone",
	"it refuses what a world starts with; see TestStrict":        "Advanced.Strict",
	"a function that is its default, or of an argument":          "RetryIn OutcomeOf Queue.Executor",
}

// A feature that no world has is one that nobody combines with others: each exported
// setting, method and function of package executor is claimed by the file of a feature.
func TestEveryNameIsClaimed(t *testing.T) {
	claimed := make(map[string]bool)
	for _, f := range features {
		for name := range strings.FieldsSeq(f.claims) {
			claimed[name] = true
		}
	}
	for _, names := range elsewhere {
		for name := range strings.FieldsSeq(names) {
			require.False(t, claimed[name], "%s is claimed, and elsewhere", name)
			claimed[name] = true
		}
	}
	var missing []string
	for _, name := range exported(t) {
		if !claimed[name] && name != "_" { // the default of a choice may have no name
			missing = append(missing, name)
		}
		delete(claimed, name)
	}
	require.Empty(t, missing, "no world has these: add them to the file of a feature")
	require.Empty(t, claimed, "there are no such names")
}

// exported are the settings, methods and functions that decide about jobs: of package
// executor, of what it gives out to look at them and to act, and of its schedules.
func exported(t *testing.T) (names []string) {
	t.Helper()
	var files []string
	for _, dir := range []string{"../../executor", "../../executor/inspect", "../../executor/cron"} {
		all, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		files = append(files, all...)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			var found []string
			switch d := d.(type) {
			case *ast.FuncDecl:
				found = functionName(d)
			case *ast.GenDecl:
				found = settings(d)
			}
			for _, name := range found {
				names = append(names, prefix(parsed.Name.Name)+name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// prefix is before the names of a package that has some of another's.
func prefix(of string) string {
	if of == "cron" {
		return "cron."
	}
	return ""
}

// subjects are the types whose methods are calls that a program makes.
var subjects = []string{"Queue", "Caller", "Executor", "Inspector", "Limit", "Slots", "Cron"}

func functionName(d *ast.FuncDecl) []string {
	switch {
	case !d.Name.IsExported():
		return nil
	case d.Recv == nil:
		return []string{d.Name.Name}
	}
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
			continue
		case *ast.IndexExpr:
			receiver = r.X
			continue
		case *ast.IndexListExpr:
			receiver = r.X
			continue
		case *ast.Ident:
			if slices.Contains(subjects, r.Name) {
				return []string{r.Name + "." + d.Name.Name}
			}
		}
		return nil
	}
}

// choices are the types whose constants are settings.
var choices = []string{"Merge", "OnExhausted", "FreshDue", "Durability", "Uniqueness", "Missed", "Overlap"}

// groups of settings stand in the two configurations, or are what a function takes.
var groups = []string{
	"Defaults", "Conditions", "Gather", "DeadLetters", "Share", "Stuck", "Crash", "Advanced", "Locks", "Unique", "Debounce",
	"Retention", "Splitter", "SlotsConfig", "LimitSetting", "LimitOf", "Schedule",
}

// settings are the fields of the two configurations and their groups, and what some of them may be.
func settings(d *ast.GenDecl) (names []string) {
	choice := ""
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST {
			if of, typed := v.Type.(*ast.Ident); typed {
				choice = of.Name
			} else if len(v.Values) > 0 {
				choice = ""
			}
			if slices.Contains(choices, choice) {
				names = append(names, v.Names[0].Name)
			}
		}
	}
	for _, spec := range d.Specs {
		s, ok := spec.(*ast.TypeSpec)
		if ok && s.Name.Name == "Inspector" {
			for _, method := range s.Type.(*ast.InterfaceType).Methods.List {
				names = append(names, "Inspector."+method.Names[0].Name)
			}
		}
		if !ok || s.Name.Name != "Config" && s.Name.Name != "QueueConfig" && !slices.Contains(groups, s.Name.Name) {
			continue
		}
		for _, field := range s.Type.(*ast.StructType).Fields.List {
			for _, name := range field.Names {
				if name.IsExported() && !slices.Contains(groups, name.Name) {
					names = append(names, s.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return names
}
