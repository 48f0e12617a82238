package report

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
)

//go:embed assets/uPlot.iife.min.js
var uplotJS string

//go:embed assets/uPlot.min.css
var uplotCSS string

//go:embed assets/uPlot.LICENSE
var uplotLicense string

//go:embed assets/report.js
var reportJS string

//go:embed assets/report.css
var reportCSS string

//go:embed assets/report.tmpl.html
var reportTemplate string

//go:embed assets/compare.tmpl.html
var compareTemplate string

// assets are ours or pinned, so they stand in the page as they are.
type assets struct {
	CSS, UPlotCSS           template.CSS
	JS, UPlotJS, UPlotTerms template.JS
}

func pageAssets() assets {
	return assets{
		CSS: template.CSS(reportCSS), UPlotCSS: template.CSS(uplotCSS),
		JS: template.JS(reportJS), UPlotJS: template.JS(uplotJS), UPlotTerms: template.JS("/*\n" + uplotLicense + "\n*/"),
	}
}

var (
	runPage     = template.Must(template.New("report").Parse(reportTemplate))
	comparePage = template.Must(template.New("compare").Parse(compareTemplate))
)

// htmlPage is what report.tmpl.html draws.
type htmlPage struct {
	assets
	Title string
	Runs  []htmlRun
	Sides *sideTable // of several runs
}

// writeHTML writes one self-contained page: tables in HTML, the numbers of the
// charts as JSON beside them, the scripts inside. Nothing in it names another
// address, and its own policy forbids the browser to ask for one.
func writeHTML(w io.Writer, runs []*Source) error {
	p := htmlPage{assets: pageAssets(), Title: "No run"}
	for i, run := range runs {
		r, err := newHTMLRun(i, run)
		if err != nil {
			return err
		}
		p.Runs = append(p.Runs, r)
	}
	if len(runs) > 0 {
		p.Title = title(&runs[0].Run)
	}
	if len(runs) > 1 {
		p.Title += " and others"
		p.Sides = sideBySide(runs)
	}
	b := bufio.NewWriterSize(w, 1<<16)
	if err := runPage.Execute(b, p); err != nil {
		return err
	}
	return b.Flush()
}

// scriptJSON is v as JSON that may stand in a script element: encoding/json
// writes <, > and & as escapes, so no text in it can end the element.
func scriptJSON(v any) (template.JS, error) {
	p, err := json.Marshal(v)
	return template.JS(p), err
}
