package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestH5_ASlipOfAProgram: what is there and says nothing, or is there twice, or is
// written otherwise, may have been meant to say that it is about fewer. It is refused by
// name, in words of the API, and nothing is done.
func TestH5_ASlipOfAProgram(t *testing.T) {
	x := waiting(t)
	s := writable(t, x)
	all := `{"verb": "cancel", "queue": "q", "scope": "all", `
	one := `{"verb": "cancel", "queue": "q", "scope": "selected", "selected": [{"id": "a", `
	for _, each := range [][2]string{
		{all + `"state": []}`, "state is empty"},
		{all + `"state": null}`, "state is null"},
		{all + `"state": "retrying"}`, "state must be a list of texts"},
		{all + `"selected": []}`, "selected is empty"},
		{all + `"selected": "a"}`, "selected must be a list"},
		{all + `"selected": [{"id": "a"}]}`, "selected is given"},
		{all + `"id": ""}`, "id is empty"},
		{all + `"id": {"base64": ""}}`, "id is empty"},
		{all + `"id": null}`, "id is null"},
		{all + `"prefix": ""}`, "prefix is empty"},
		{all + `"error": ""}`, "error is empty"},
		{all + `"reason": ""}`, "reason is empty"},
		{all + `"reason": 7}`, "reason must be a text"},
		{all + `"scope": "id"}`, "scope is there twice"},
		{all + `"queue": {"base64": "cQ=="}}`, "queue is there twice"},
		{all + `"QUEUE": "p"}`, `"QUEUE"`},
		{all + `"ſtate": ["halted"]}`, `"ſtate"`},
		{all + `"id_base64": "YWxs"}`, `"id_base64"`},
		{all + `"id": {"base": "YWxs"}}`, `"base"`},
		{all + `"id": {}}`, "base64"},
		{all + `"from": "job"}`, "from is given"},
		{all + `"confirm": "yes"}`, "confirm is given"},
		{one + `"position": 0}]}`, "position is 0"},
		{one + `"position": null}]}`, "position is null"},
		{one + `"position": 1.5}]}`, "position is 1.5"},
		{one + `"position": 1, "position": 2}]}`, "position is there twice"},
		{one + `"ID": "b"}]}`, `"ID"`},
		{one + `"queue": "p"}]}`, `"queue"`},
		{one + `"id": "b"}]}`, "id is there twice"},
		{`{"verb": "cancel", "queue": "q", "scope": "selected", "selected": [null]}`, "must be an object"},
		{`{"verb": "cancel", "queue": "q", "scope": "selected", "selected": [{}]}`, "id is missing"},
		{`{"verb": 1}`, "verb must be a text"},
		{`{"verb": "pause-schedule", "schedule": "s", "cron": null}`, "cron is null"},
		{`{"verb": "pause-schedule", "schedule": "s", "cron": -1}`, "cron is -1"},
		{`{"verb": "pause-schedule", "schedule": "s", "key": "s"}`, "key is given"},
	} {
		text := s.problem(http.StatusBadRequest, s.tell(each[0]))
		require.Contains(t, text, each[1], each[0])
		require.NotContains(t, text, "Go ", each[0])
		require.NotContains(t, text, "json:", each[0])
	}
	for form, want := range map[string]string{
		"verb=cancel&queue=q&scope=all&id=":                   "id is empty",
		"verb=cancel&queue=q&scope=all&state=":                "state is empty",
		"verb=cancel&queue=q&scope=filtered&prefix=&error=":   "is empty",
		"verb=cancel&queue=q&scope=filtered&prefix=a&error=":  "error is empty",
		"verb=cancel&queue=q&scope=selected&sel=0:a":          "position from 1",
		"verb=cancel&queue=q&scope=selected&sel=%2b1:a":       "position from 1",
		"verb=cancel&queue=q&scope=selected&sel=:":            "sel",
		"verb=cancel&queue=q&scope=id&id=a&queue_base64=cQ==": "queue_base64",
		"verb=pause-schedule&schedule=s&cron=%2b0":            "cron",
	} {
		a := s.tell(form, "Content-Type", "application/x-www-form-urlencoded")
		require.Contains(t, s.problem(http.StatusBadRequest, a), want, form)
	}
	for _, limit := range []string{"%2b5", "%205", "5x"} {
		s.problem(http.StatusBadRequest, s.do(http.MethodGet, "api/v1/jobs?queue=q&limit="+limit, nil))
		s.refused(http.StatusBadRequest, http.MethodGet, "queue?name=q&limit="+limit, nil)
	}
	s.problem(http.StatusBadRequest, s.do(http.MethodPost, "api/v1/copy?x=1", nil))
	s.refused(http.StatusBadRequest, http.MethodPost, "copy", url.Values{"queue": {"q"}})
	untouched(t, x)
}

// TestH5_ASlipOfAPage: the same of what a page sends, also when its address says one
// thing and its form another.
func TestH5_ASlipOfAPage(t *testing.T) {
	x := waiting(t)
	s := writable(t, x)
	for each, want := range map[string]string{
		"?verb=pause&queue=q&scope=all verb=delete&tab=waiting": "verb is there 2 times",
		"?queue=q verb=cancel&scope=all&tab=waiting&queue=p":    "queue is there 2 times",
		" verb=pause&scope=all&queue=q&queue=":                  "queue is there 2 times",
		" verb=resume&scope=all":                                "queue is missing",
		" verb=pause&scope=all&queue=":                          "queue is empty",
		" verb=cancel&scope=all&tab=waiting&queue=q&id=":        "id is empty",
		" verb=cancel&scope=filtered&tab=waiting&queue=q":       "without prefix",
		" verb=cancel&scope=selected&queue=q&sel=0:a":           "position from 1",
		" verb=cancel&scope=id&queue=q&id=a&limit=1":            "limit",
		" verb=unlock&key=k&queue=q":                            "queue is given",
		" verb=unlock&key=k&scope=all":                          "scope is given",
		" verb=unlock&key=":                                     "key is empty",
		" verb=unlock":                                          "key is missing",
		" verb=trigger&key=s&queue=q":                           "queue is given",
		" verb=trigger&key=s&scope=all":                         "scope is given",
		" verb=trigger&key=s&schedule=s":                        "key is given",
		" verb=pause-schedule&key=s&queue=q":                    "queue is given",
		" verb=resume-schedule&key=s&cron=%2b1":                 "cron",
		" verb=unlock&key=k&reason=x":                           "reason is given",
		" verb=unlock&key=k&confirm=no":                         "confirm",
	} {
		query, form, _ := strings.Cut(each, " ")
		for _, confirm := range []string{"", "&confirm=yes"} {
			if strings.Contains(form, "confirm") {
				confirm = ""
			}
			values, err := url.ParseQuery(form + confirm)
			require.NoError(t, err)
			a := s.do(http.MethodPost, "do"+query, values)
			require.Equal(t, http.StatusBadRequest, a.StatusCode, each)
			require.Contains(t, a.text, want, each)
		}
	}
	untouched(t, x)
}
