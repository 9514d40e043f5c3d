// Package kv keeps keys: which entry is newer, the winner on disk, and views.
package kv
