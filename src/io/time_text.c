/* SPDX-License-Identifier: Apache-2.0 */
#include "io/time_text.h"

#include <string.h>

struct reader {
	const char *at, *end;
};

struct parts {
	int64_t year;
	int month, day, hour, minute, second; /* month: 1 to 12 */
};

static const char *const months[12] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days[7] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

/* ---- pieces of a text ---- */

static bool take(struct reader *r, const char *text)
{
	size_t n = strlen(text);
	if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
		return false;
	r->at += n;
	return true;
}

/* Reads exactly `digits` digits; returns false if there are fewer. */
static bool take_digits(struct reader *r, int digits, int *out)
{
	*out = 0;
	for (int i = 0; i < digits; i++, r->at++) {
		if (r->at == r->end || *r->at < '0' || *r->at > '9')
			return false;
		*out = *out * 10 + (*r->at - '0');
	}
	return true;
}

static bool take_month(struct reader *r, struct parts *p)
{
	for (p->month = 1; p->month <= 12; p->month++)
		if (take(r, months[p->month - 1]))
			return true;
	return false;
}

static bool take_clock(struct reader *r, struct parts *p)
{
	return take_digits(r, 2, &p->hour) && take(r, ":") && take_digits(r, 2, &p->minute) && take(r, ":") &&
	       take_digits(r, 2, &p->second);
}

static bool take_year(struct reader *r, int digits, struct parts *p)
{
	int year;
	bool ok = take_digits(r, digits, &year);
	p->year = digits == 4 ? year : year + (year < 69 ? 2000 : 1900);
	return ok;
}

/* ---- the calendar ---- */

static bool is_leap(int64_t year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool is_date(const struct parts *p)
{
	static const int lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	if (p->month < 1 || p->month > 12 || p->day < 1)
		return false;
	int length = lengths[p->month - 1] + (p->month == 2 && is_leap(p->year));
	return p->day <= length && p->hour < 24 && p->minute < 60 && p->second <= 60;
}

/* Converts a date of the proleptic Gregorian calendar to seconds since 1970. Years begin in March here, so that the leap day is the last of a year. Adds 400
 * years (146097 days), so that no dividend is below 0, where division would round up. 719468 is the number of days from 1 March of year 0 to 1970. */
static int64_t seconds_of(const struct parts *p)
{
	const int64_t year = p->year + 400 - (p->month <= 2), month = (p->month + 9) % 12;
	const int64_t days_of_year = (153 * month + 2) / 5 + p->day - 1;
	const int64_t day = year * 365 + year / 4 - year / 100 + year / 400 + days_of_year - 719468 - 146097;
	return ((day * 24 + p->hour) * 60 + p->minute) * 60 + p->second;
}

static bool end_at(const struct reader *r, const struct parts *p, int64_t *out)
{
	if (r->at != r->end || !is_date(p))
		return false;
	*out = seconds_of(p);
	return true;
}

/* ---- forms ---- */

static bool fixed_form(struct reader r, struct parts *p, int64_t *out)
{
	return take(&r, ", ") && take_digits(&r, 2, &p->day) && take(&r, " ") && take_month(&r, p) && take(&r, " ") &&
	       take_year(&r, 4, p) && take(&r, " ") && take_clock(&r, p) && take(&r, " GMT") && end_at(&r, p, out);
}

static bool long_form(struct reader r, struct parts *p, int64_t *out)
{
	return take(&r, ", ") && take_digits(&r, 2, &p->day) && take(&r, "-") && take_month(&r, p) && take(&r, "-") &&
	       take_year(&r, 2, p) && take(&r, " ") && take_clock(&r, p) && take(&r, " GMT") && end_at(&r, p, out);
}

static bool asctime_form(struct reader r, struct parts *p, int64_t *out)
{
	bool ok = take(&r, " ") && take_month(&r, p) && take(&r, " ");
	bool one_digit = ok && take(&r, " ");
	return ok && take_digits(&r, one_digit ? 1 : 2, &p->day) && take(&r, " ") && take_clock(&r, p) && take(&r, " ") &&
	       take_year(&r, 4, p) && end_at(&r, p, out);
}

bool stk__http_date(const char *text, size_t n, int64_t *out)
{
	struct parts p = {0};
	for (int i = 0; i < 7; i++) {
		char brief[4] = {days[i][0], days[i][1], days[i][2], '\0'};
		struct reader with_day = {text, text + n}, r = with_day;
		if (take(&with_day, days[i]))
			return long_form(with_day, &p, out);
		if (take(&r, brief))
			return fixed_form(r, &p, out) || asctime_form(r, &p, out);
	}
	return false;
}

/* Reads an offset from UTC, in seconds: "+01:00", "-0800", "Z", "UTC", or the end of the text, which stands for Z. Returns false for anything else. */
static bool take_offset(struct reader *r, int64_t *seconds)
{
	int hours, minutes;
	*seconds = 0;
	if (r->at == r->end || take(r, "Z") || take(r, "UTC"))
		return true;
	const int sign = take(r, "+") ? 1 : take(r, "-") ? -1 : 0;
	if (!sign || !take_digits(r, 2, &hours))
		return false;
	(void)take(r, ":");
	if (!take_digits(r, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

bool stk__iso_time(const char *text, size_t n, int64_t *out)
{
	struct parts p = {0};
	struct reader r = {text, text + n};
	int64_t offset;
	if (!take_year(&r, 4, &p) || !take(&r, "-") || !take_digits(&r, 2, &p.month) || !take(&r, "-") || !take_digits(&r, 2, &p.day) ||
		!(take(&r, "T") || take(&r, " ")) || !take_clock(&r, &p))
		return false;
	if (take(&r, "."))
		while (r.at < r.end && *r.at >= '0' && *r.at <= '9')
			r.at++;
	if (!take_offset(&r, &offset) || !end_at(&r, &p, out))
		return false;
	*out -= offset;
	return true;
}
