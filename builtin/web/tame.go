package web

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of what the converters are given. The parser and the converters make more
// of some pages than they are long: a cell that spans a billion columns, a short row
// beside a wide one, a line in a list in a list, a tag that is opened again in each
// paragraph. Pages that people write are far below these bounds.
const (
	// maxTags bounds the tags of a page; what follows is cut off.
	maxTags = 60000
	// maxCells bounds the cells of a table with those that Markdown adds to make its
	// rows alike, and maxAllCells those of all tables. What is over is shown as text.
	maxCells, maxAllCells = 10000, 50000
	// maxDepth bounds how deeply elements are nested; what is deeper is text.
	maxDepth = 100
	// maxIndent bounds how deeply lists and quotes are nested: each level indents.
	maxIndent = 16
	// maxAddress bounds the addresses of links and pictures, in bytes.
	maxAddress = 4 << 10
)

// pipe stands for a "|" in a cell until it is known whether the cell became one of
// Markdown, where it must be escaped. It is a code point that no text may have.
const pipe = "\uFDD0"

// withPipes puts the characters back that pipe stands for.
func withPipes(md string) string {
	if !strings.Contains(md, pipe) {
		return md
	}
	var b strings.Builder
	for line := range strings.Lines(md) {
		to := "|"
		if strings.HasPrefix(strings.TrimLeft(line, " \t>"), "|") {
			to = `\|`
		}
		b.WriteString(strings.ReplaceAll(line, pipe, to))
	}
	return b.String()
}

// flat is HTML with less in it that a parser multiplies: a parser opens formatting
// that was not closed anew in each block, up to three times for each name and set of
// attributes. What has no form in Markdown is left out, and of the rest the
// attributes. Text comes out escaped, so that it is text to every parser.
func flat(s string) (out string, cut bool) {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	for n := 0; ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return b.String(), false // the end
		}
		t := z.Token()
		switch kind {
		case html.TextToken:
			b.WriteString(html.EscapeString(strings.ReplaceAll(t.Data, pipe, "")))
			continue
		case html.CommentToken, html.DoctypeToken:
			continue
		}
		if n++; n > maxTags {
			return b.String(), true
		}
		switch t.DataAtom {
		case atom.Big, atom.Font, atom.Nobr, atom.Small, atom.Tt, atom.U, atom.Math, atom.Svg, atom.Select, atom.Frameset, atom.Plaintext:
			continue
		case atom.B, atom.Strong:
			t.Data, t.Attr = "strong", nil
		case atom.I, atom.Em:
			t.Data, t.Attr = "em", nil
		case atom.S, atom.Strike:
			t.Data, t.Attr = "s", nil
		case atom.Code:
			t.Attr = nil
		}
		b.WriteString(t.String())
	}
}

// tame bounds what a converter makes of a parsed page.
func tame(doc *html.Node) {
	cells := maxAllCells
	tameBelow(doc, 0, 0, false, &cells)
}

func tameBelow(n *html.Node, depth, indent int, cell bool, cells *int) {
	if n.Type == html.TextNode && cell {
		n.Data = strings.ReplaceAll(n.Data, "|", pipe)
	}
	if n.Type == html.ElementNode {
		switch n.DataAtom {
		case atom.Ul, atom.Ol, atom.Blockquote:
			if indent++; indent > maxIndent {
				rename(n, atom.Div)
			}
		case atom.Li:
			if indent > maxIndent {
				rename(n, atom.Div)
			}
		case atom.Table:
			if area := cellsOf(n); area > maxCells || area > *cells {
				flattenTable(n)
			} else {
				*cells -= area
			}
		case atom.Td, atom.Th:
			cell = true
		}
		n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
			return len(a.Val) > maxAddress && (a.Key == "href" || a.Key == "src" || a.Key == "srcset" || a.Key == "poster")
		})
	}
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if depth >= maxDepth && c.Type == html.ElementNode {
			text := &html.Node{Type: html.TextNode, Data: " " + textOf(c) + " "}
			n.InsertBefore(text, c)
			n.RemoveChild(c)
		} else {
			tameBelow(c, depth+1, indent, cell, cells)
		}
		c = next
	}
}

func rename(n *html.Node, to atom.Atom) { n.DataAtom, n.Data, n.Attr = to, to.String(), nil }

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// cellsOf is how many cells a table has as Markdown, with all that its cells span and
// all that makes its rows as long as the longest.
func cellsOf(table *html.Node) int {
	rows, widest, width, spanned := 1, 0, 0, 0 // Markdown wants a row of headings
	var below []int                            // what hangs into each row from those above
	for d := range table.Descendants() {
		switch d.DataAtom {
		case atom.Tr:
			rows, width = rows+1, 0
			if rows < len(below) {
				width = below[rows]
			}
		case atom.Td, atom.Th:
			cols, down := span(d, "colspan"), span(d, "rowspan")
			width += cols
			spanned += cols * down
			for r := rows + 1; r < rows+down && spanned <= maxCells; r++ {
				below = append(below, make([]int, max(0, r+1-len(below)))...)
				below[r] += cols
				widest = max(widest, below[r])
			}
		}
		widest = max(widest, width)
	}
	return max(rows, len(below))*widest + spanned
}

// span reads an attribute that says how far a cell reaches, and bounds it as
// browsers do.
func span(n *html.Node, key string) int {
	const most = 1000
	reach := 1
	for i, a := range n.Attr {
		if a.Key != key {
			continue
		}
		v, err := strconv.Atoi(strings.TrimSpace(a.Val))
		if err != nil || v < 1 {
			v = 1
		}
		n.Attr[i].Val = strconv.Itoa(min(v, most))
		reach = max(reach, min(v, most))
	}
	return reach
}

// flattenTable makes text of a table: a line for each row, the cells one after
// another. Tables in its cells are looked at by themselves.
func flattenTable(table *html.Node) {
	var turn func(n *html.Node)
	turn = func(n *html.Node) {
		switch n.DataAtom {
		case atom.Td, atom.Th:
			rename(n, atom.Span)
			n.AppendChild(&html.Node{Type: html.TextNode, Data: " "})
		case atom.Table, atom.Thead, atom.Tbody, atom.Tfoot, atom.Tr, atom.Caption, atom.Colgroup, atom.Col:
			rename(n, atom.Div)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if c.DataAtom != atom.Table {
				turn(c)
			}
		}
	}
	turn(table)
}
