import '@mantine/charts/styles.css';
import { BarChart } from '@mantine/charts';
import { VisuallyHidden } from '@mantine/core';
import type { SpendDay } from '../api/types.ts';
import { t, usd, utcDay } from '../text/text.ts';

/** Bars of what was spent; readers that see none get a table. */
export default function SpendChart({ days }: { readonly days: readonly SpendDay[] }) {
  const spent = t('overview.spent');
  return (
    <>
      <div aria-hidden="true" className="chart">
        <BarChart
          h="100%"
          data={days.map(({ day, spent_usd }) => ({ day: utcDay(day), [spent]: spent_usd }))}
          dataKey="day"
          series={[{ name: spent, color: 'ink.5' }]}
          valueFormatter={usd}
          gridAxis="x"
          tickLine="none"
          barProps={{ radius: [3, 3, 0, 0], isAnimationActive: false }}
          xAxisProps={{ minTickGap: 28 }}
          yAxisProps={{ width: 72 }}
          barChartProps={{ accessibilityLayer: false }}
        />
      </div>
      <VisuallyHidden>
        <table>
          <caption>{t('overview.spend')}</caption>
          <tbody>
            {days
              .filter(({ spent_usd }) => spent_usd > 0)
              .map(({ day, spent_usd }) => (
                <tr key={day}>
                  <th scope="row">{day}</th>
                  <td>{usd(spent_usd)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </VisuallyHidden>
    </>
  );
}
