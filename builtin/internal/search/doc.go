// Package search is the one owner of what Glob and Grep share: walking a workspace
// (Walk), what is ignored on the way (Git's rules, and defaults), glob patterns
// (Glob), types of files, and looking for patterns in files (Grep).
package search
