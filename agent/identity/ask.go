package identity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// AskToJoin sends a request over a connection with gv-join/1 or gv-peer/1, and
// closes the connection. The error is a *Refusal if the other side refused.
func AskToJoin(ctx context.Context, conn net.Conn, request *JoinRequest) (*JoinAnswer, error) {
	answer := new(JoinAnswer)
	if err := askJSON(ctx, conn, JoinPath, request, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// AskToRenew sends a request for a certificate over a connection with gv-peer/1
// to a voter, and closes the connection.
func AskToRenew(ctx context.Context, conn net.Conn, request []byte) (certificate []byte, err error) {
	return ask(ctx, conn, RenewPath, request)
}

func askJSON(ctx context.Context, conn net.Conn, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	data, err := ask(ctx, conn, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s: answer: %w", path, err)
	}
	return nil
}

// ask makes one HTTP call over conn. There is no other call on it, so that the
// connection, whose peer has proved who it is, can't be mistaken for another.
func ask(ctx context.Context, conn net.Conn, path string, body []byte) ([]byte, error) {
	stop := bind(ctx, conn)
	data, err := call(conn, path, body)
	if late := stop(); late != nil && err != nil {
		err = late
	}
	conn.Close() // the answer is complete or worth nothing
	return data, err
}

func call(conn net.Conn, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, "http://cluster"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Close = true
	request.Header.Set("Content-Type", "application/json")
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	return readAnswer(conn, request)
}

// readAnswer reads a bounded answer: head and body together.
func readAnswer(from io.Reader, request *http.Request) ([]byte, error) {
	bounded := &io.LimitedReader{R: from, N: maxJoinAnswer}
	response, err := http.ReadResponse(bufio.NewReader(bounded), request)
	if err != nil {
		return nil, tooLong(err, bounded)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, tooLong(err, bounded)
	}
	if response.StatusCode == http.StatusOK {
		return data, nil
	}
	refusal := new(Refusal)
	if err := json.Unmarshal(data, refusal); err != nil || refusal.Reason == "" {
		return nil, fmt.Errorf("%s: status %d", request.URL.Path, response.StatusCode)
	}
	refusal.Message = oneLine(refusal.Message, 1000)
	return nil, refusal
}

func tooLong(err error, read *io.LimitedReader) error {
	if read.N <= 0 {
		return fmt.Errorf("the answer has more than %d bytes", maxJoinAnswer)
	}
	return err
}
