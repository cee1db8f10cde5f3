/** Requests that travel together on a stream, as in ReadJobsRequest. */
export interface Asked<Request> {
  /** Chosen by who asks; not that of another message under way on the stream. */
  number: number;
  requests: Request[];
  /** Of the first of them, for logs. */
  requestId: string;
}

/** The results of one message, in the order of its requests. */
export interface Answered<Result> {
  number: number;
  results: Result[];
}
