// A round through the API with the client that oapi-codegen makes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"semblance.dev/client/api"
)

func main() {
	if err := round(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func round(ctx context.Context) error {
	bearer := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("API_KEY"))
		return nil
	}
	client, err := api.NewClientWithResponses(os.Getenv("API_URL"), api.WithRequestEditorFn(bearer))
	if err != nil {
		return err
	}
	imageKey, err := upload(ctx, client, "base.jpg", "image/jpeg")
	if err != nil {
		return err
	}
	faceKey, err := upload(ctx, client, "face.png", "image/png")
	if err != nil {
		return err
	}
	once := "one"
	submitted, err := client.SubmitPhotoSwapWithResponse(ctx,
		&api.SubmitPhotoSwapParams{IdempotencyKey: &once},
		api.PhotoSwapSubmit{ImageKey: imageKey, FaceKey: &faceKey})
	if err != nil {
		return err
	}
	if submitted.JSON200 == nil {
		return fmt.Errorf("the submit was answered %s", submitted.Body)
	}
	job, err := finished(ctx, client, submitted.JSON200.Id)
	if err != nil {
		return err
	}
	output, err := http.Get(*job.OutputUrl)
	if err != nil {
		return err
	}
	defer output.Body.Close()

	invalid, err := client.SubmitPhotoSwapWithResponse(ctx, nil,
		api.PhotoSwapSubmit{ImageKey: "api/nothing", FaceKey: &faceKey})
	if err != nil {
		return err
	}
	unknown, err := client.GetJobWithResponse(ctx, "job-unknown")
	if err != nil {
		return err
	}
	if invalid.JSON400 == nil || unknown.JSON404 == nil {
		return fmt.Errorf("refusals were answered %s and %s", invalid.Body, unknown.Body)
	}

	minutes, open, limit := 1, api.ListSessionsParamsOpenTrue, 1
	opened, err := client.OpenVoiceSwapWithResponse(ctx, api.VoiceSwapOpen{DurationMinutes: &minutes})
	if err != nil {
		return err
	}
	if opened.JSON200 == nil {
		return fmt.Errorf("the opening was answered %s", opened.Body)
	}
	session := opened.JSON200
	sessions, err := client.ListSessionsWithResponse(ctx, &api.ListSessionsParams{Open: &open, Limit: &limit})
	if err != nil {
		return err
	}
	ended, err := client.EndSessionWithResponse(ctx, session.SessionId)
	if err != nil {
		return err
	}
	if sessions.JSON200 == nil || ended.JSON200 == nil {
		return fmt.Errorf("sessions were answered %s and %s", sessions.Body, ended.Body)
	}
	var listed api.CallStatus
	for _, one := range *sessions.JSON200 {
		if one.SessionId == session.SessionId {
			listed = one.Status
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"job": map[string]any{
			"status":      job.Status,
			"charged_usd": *job.ChargedUsd,
			"output":      strings.Split(output.Header.Get("Content-Type"), "/")[0],
		},
		"refusals": []api.ErrorDetailCode{invalid.JSON400.Error.Code, unknown.JSON404.Error.Code},
		"session": map[string]any{
			"opened": session.SessionToken != "" && session.MaxDurationSec == 60,
			"listed": listed,
			"ended":  ended.JSON200.SessionId == session.SessionId,
		},
	})
}

func upload(ctx context.Context, client *api.ClientWithResponses, name, mediaType string) (string, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", fmt.Sprintf(`form-data; name="file"; filename=%q`, name))
	header.Set("Content-Type", mediaType)
	part, err := form.CreatePart(header)
	if err != nil {
		return "", err
	}
	if _, err := part.Write(file); err != nil {
		return "", err
	}
	if err := form.Close(); err != nil {
		return "", err
	}
	answer, err := client.UploadWithBodyWithResponse(ctx, form.FormDataContentType(), &body)
	if err != nil {
		return "", err
	}
	if answer.JSON200 == nil {
		return "", fmt.Errorf("the upload was answered %s", answer.Body)
	}
	return answer.JSON200.FileKey, nil
}

func finished(ctx context.Context, client *api.ClientWithResponses, id string) (*api.Job, error) {
	for {
		answer, err := client.GetJobWithResponse(ctx, id)
		if err != nil {
			return nil, err
		}
		job := answer.JSON200
		if job == nil {
			return nil, fmt.Errorf("the job was answered %s", answer.Body)
		}
		if job.Status == api.CallStatusFailed {
			return nil, fmt.Errorf("the job failed: %s", job.Error.Message)
		}
		if job.Status == api.CallStatusSucceeded && job.ChargedUsd != nil {
			return job, nil
		}
		time.Sleep(time.Second)
	}
}
