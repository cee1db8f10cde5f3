/** Times in ms. */
export interface StreamPace {
  /** Interval of pings on a silent socket. */
  readonly ping: number;
  /** Silence after which a client is gone. */
  readonly silence: number;
  /** Time without media after which a client loses its slot. */
  readonly idle: number;
  /** Time after which a client that reads too little, or an agent that answers nothing, is dropped. */
  readonly stuck: number;
}

export const STREAM_PACE: StreamPace = { ping: 10_000, silence: 20_000, idle: 30_000, stuck: 10_000 };
