package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"grapevine/gateway/spec"
)

// readFiles reads and checks the static files. Without any it is an empty file.
func (c Config) readFiles() (*spec.File, error) {
	names, err := c.fileNames()
	if err != nil {
		return nil, err
	}
	var inputs []spec.Input
	var problems []error
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			problems = append(problems, fmt.Errorf("configuration file %q: %w", name, bare(err)))
			continue
		}
		inputs = append(inputs, spec.Input{Name: name, Data: data})
	}
	if problems != nil {
		return nil, exit(exitInvalid, errors.Join(problems...))
	}
	file, err := spec.ParseFiles(inputs...)
	return file, exit(exitInvalid, err)
}

// fileNames lists the files, those of the directory by name. Hidden files are left out: mounted configuration has its
// versions in them.
func (c Config) fileNames() ([]string, error) {
	names := slices.Clone(c.ConfigFiles)
	if c.ConfigDir == "" {
		return names, nil
	}
	entries, err := os.ReadDir(c.ConfigDir)
	if err != nil {
		return nil, exit(exitInvalid, fmt.Errorf("configuration directory %q: %w", c.ConfigDir, bare(err)))
	}
	for _, entry := range entries {
		if isConfigFile(entry.Name()) {
			names = append(names, filepath.Join(c.ConfigDir, entry.Name()))
		}
	}
	return names, nil
}

func isConfigFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// bare takes the operation and the path off an error whose message names them already.
func bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
