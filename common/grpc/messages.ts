/** Requests that travel together in one message of a stream, as in ReadJobsRequest. */
export interface Asked<Request> {
  /** Number that the asker chooses. It differs from those of all unanswered messages on the stream. */
  number: number;
  requests: Request[];
  /** Request id of the first request, for logs. */
  requestId: string;
}

/** The results of one message, in the order of its requests. */
export interface Answered<Result> {
  number: number;
  results: Result[];
}
